"""The fuzz targets with their seeds and past findings. `make fuzz` does the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fuzz import targets
from fuzz.seeds import seeds
from fuzz.targets import TARGETS, Fault
from lightbox.base.errors import LightboxError, MalformedBody


@pytest.mark.extended
@pytest.mark.parametrize("target", TARGETS)
def test_every_input_gives_tensors_or_an_error_below_500(target: str) -> None:
    inputs = list(seeds(target))
    assert len(inputs) >= 2
    for data in inputs:
        TARGETS[target](data)


def raising(error: Exception) -> Callable[[], object]:
    def run() -> object:
        raise error

    return run


def test_what_counts_as_broken() -> None:
    targets._only_our_errors(raising(MalformedBody("no")))
    with pytest.raises(Fault, match="500"):
        targets._only_our_errors(raising(LightboxError("internal error")))
    with pytest.raises(KeyError):
        targets._only_our_errors(raising(KeyError("x")))
