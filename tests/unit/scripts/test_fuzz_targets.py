"""The fuzz targets with their seeds and past findings. `make fuzz` does the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fuzz import targets
from fuzz.cost import Bound, TooCostly
from fuzz.seeds import seeds
from fuzz.targets import TARGETS, Fault
from lightbox.base.errors import LightboxError, MalformedBody


@pytest.mark.extended
@pytest.mark.parametrize("target", TARGETS)
def test_every_input_gives_tensors_or_an_error_below_500_and_takes_no_more_memory_than_its_length_allows(
    target: str,
) -> None:
    inputs, run = list(seeds(target)), TARGETS[target].run
    assert len(inputs) >= 2
    run(inputs[0])  # the first run's imports and one-time objects do not count
    for data in inputs:
        TARGETS[target].bound.check_memory(run, data)


def allocating(times: int) -> Callable[[bytes], None]:
    """Return a function that briefly allocates ``times`` bytes per byte of its input."""

    def run(data: bytes) -> None:
        bytearray(times * len(data))

    return run


def test_what_allocates_more_for_each_byte_than_is_allowed_is_a_fault() -> None:
    bound = Bound(allocated=100_000, allocated_per_byte=10)
    bound.check_memory(allocating(5), bytes(1 << 20))
    with pytest.raises(TooCostly, match="1048576, and 10585760 are allowed"):
        bound.check_memory(allocating(20), bytes(1 << 20))


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
