"""EfficientNet-Lite0: the names of its classes."""

from pathlib import Path

from lightbox.tools.model_zoo import folder as layout


def test_each_class_has_a_name(sample_models: Path) -> None:
    assert len((sample_models / "efficientnet_lite0" / layout.LABELS).read_text().splitlines()) == 1000
