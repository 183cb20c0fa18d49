"""The published EfficientDet-D1, trained on COCO: the detection zoo's archive behind our three inputs."""

import tempfile
from pathlib import Path
from typing import Any

from lightbox.base.errors import LightboxError
from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry import say
from lightbox.model_files.archives import unpack
from lightbox.tools.model_zoo.detection_outputs import OUTPUTS, SIDE
from lightbox.tools.model_zoo.efficientdet_d1 import INPUT_NAME, SCALING
from lightbox.tools.model_zoo.folder import Refused
from lightbox.tools.model_zoo.image_model import ImageModel
from lightbox.tools.model_zoo.weights import download

MAX_MB, UNPACK_SECONDS = 1000, 600
ARCHIVE_URL = (
    "https://download.tensorflow.org/models/object_detection/tf2/20200711/efficientdet_d1_coco17_tpu-32.tar.gz"
)


def image_model(archive: Path | None) -> ImageModel:
    """Return the model of `archive`, a .tar.gz as the zoo publishes it; without one, download it first."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(archive or fetch(Path(folder, "archive.tar.gz")), Path(folder, "model"))
    published = loaded.signatures["serving_default"]

    def predict(pixels: Any) -> dict[str, Any]:
        import tensorflow as tf

        found: dict[str, Any] = published(input_tensor=tf.cast(pixels, tf.uint8))
        return {name: found[name] for name in OUTPUTS}

    return ImageModel(
        predict=predict,
        keep=[loaded],
        height=SIDE,
        width=SIDE,
        scaling=SCALING,
        weights="COCO weights, as published",
        batch=1,
        uint8_name=INPUT_NAME,
    )


def fetch(target: Path) -> Path:
    """Download the archive, or refuse with what else can be done."""
    say.progress("efficientdet_d1: downloading the published model (50 MB)")
    problem = download(ARCHIVE_URL, target)
    if problem is not None:
        raise Refused(
            f"{ARCHIVE_URL} cannot be downloaded ({problem}): fetch it elsewhere and pass --archive FILE, "
            "or pass --weights none for seeded random weights"
        )
    return target


def load(archive: Path, folder: Path) -> Any:
    """Unpack the archive and load the SavedModel in it; its variables are in memory when this returns."""
    import tensorflow as tf

    try:
        unpack(archive, folder, str(archive), RequestContext(UNPACK_SECONDS), MAX_MB << 20)
    except LightboxError as error:
        raise Refused(f"{archive} is not a .tar.gz archive that can be read: {error.message}") from error
    models = sorted(folder.rglob("saved_model.pb"))
    if len(models) != 1:
        raise Refused(f"{archive} must hold one SavedModel; it holds {len(models)}")
    loaded = tf.saved_model.load(str(models[0].parent))
    check_interface(archive, loaded)
    return loaded


def check_interface(archive: Path, loaded: Any) -> None:
    """Refuse a SavedModel that lacks the zoo's signature."""
    signature = loaded.signatures.get("serving_default")
    outputs = set(signature.structured_outputs) if signature is not None else set()
    missing = sorted(set(OUTPUTS) - outputs)
    if missing:
        raise Refused(f"the model in {archive} is no detector of the zoo: it lacks {', '.join(missing)}")
