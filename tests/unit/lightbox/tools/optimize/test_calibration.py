"""INT8 models: tests/slow/test_optimize.py makes them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from lightbox.model_runtime.engines.openvino.int8 import Quantized
from lightbox.tools.optimize import calibration
from lightbox.tools.optimize.pictures import find_pictures
from lightbox.tools.optimize.trial import Subject, TrialFailed


def test_it_takes_pictures_and_nncf(subject: Subject, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = find_pictures(photos)
    with pytest.raises(TrialFailed, match="it takes 5 more pictures to calibrate it"):
        calibration.make(subject, pictures[:15])
    monkeypatch.setattr(calibration, "find_spec", lambda name: None if name == "nncf" else find_spec(name))
    with pytest.raises(TrialFailed, match=r"nncf is not installed: pip install 'lightbox-serve\[int8\]'"):
        calibration.make(subject, pictures)


def test_pictures_have_a_name_of_their_own(photos: Path) -> None:
    pictures = find_pictures(photos)
    first, second = calibration.basis_of(pictures[:30]), calibration.basis_of(pictures[30:])
    assert first.startswith("calibrated with 30 pictures (")
    assert first != second


def test_a_refused_one_is_removed(subject: Subject) -> None:
    place = Quantized.place(subject.folder, "serving_default")
    place.parent.mkdir(parents=True)
    for suffix in (".xml", ".bin", ".json"):
        place.with_suffix(suffix).touch()
    calibration.remove(subject)
    calibration.remove(subject)
    assert list(place.parent.iterdir()) == []
