"""MobileNetV2 without a download."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightbox.tools.model_zoo import mobilenet_v2

pytestmark = pytest.mark.extended


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, closed_port: int, tmp_path: Path) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(mobilenet_v2, "WEIGHTS_URL", f"http://127.0.0.1:{closed_port}/weights.h5")


@pytest.mark.usefixtures("offline")
def test_without_a_download_the_weights_are_seeded_and_one_line_says_why(
    seeded_mobilenet_v2: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    network, trained = mobilenet_v2.keras_model("imagenet")
    assert not trained
    np.testing.assert_array_equal(network.get_weights()[0], seeded_mobilenet_v2.get_weights()[0])
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert "the ImageNet weights cannot be downloaded: " in said[1]


@pytest.mark.usefixtures("offline")
def test_cached_weights_are_used_without_a_download(monkeypatch: pytest.MonkeyPatch, seeded_mobilenet_v2: Any) -> None:
    monkeypatch.setattr("keras.applications.MobileNetV2", lambda weights: {"imagenet": seeded_mobilenet_v2}[weights])
    mobilenet_v2.cached_weights().parent.mkdir()
    mobilenet_v2.cached_weights().write_bytes(b"any")
    model = mobilenet_v2.image_model("imagenet")
    assert not model.random
    assert model.weights == "ImageNet weights"


@pytest.mark.usefixtures("offline")
def test_a_download_that_breaks_off_falls_back_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(weights: str) -> Any:
        raise Exception("URL fetch failure")

    monkeypatch.setattr("keras.applications.MobileNetV2", broken)
    mobilenet_v2.cached_weights().parent.mkdir()
    mobilenet_v2.cached_weights().write_bytes(b"any")
    assert mobilenet_v2.imagenet_model() is None
    assert "cannot be downloaded: URL fetch failure" in capsys.readouterr().out
