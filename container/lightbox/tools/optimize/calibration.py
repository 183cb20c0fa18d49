"""Makes a model's INT8 model with NNCF, in a process of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lightbox.base.errors import LightboxError
from lightbox.model.spec import DEFAULT_SIGNATURE
from lightbox.model_runtime.engines.openvino.compiled import imported, read_signature
from lightbox.model_runtime.engines.openvino.graph import read_meta_graph
from lightbox.model_runtime.engines.openvino.graph_check import refusals
from lightbox.model_runtime.engines.openvino.int8 import Quantized, quantized
from lightbox.model_runtime.engines.openvino.verdicts import digest
from lightbox.model_runtime.engines.setting import TRIED, Setting
from lightbox.model_runtime.formats import model_file
from lightbox.model_runtime.wire.status import StatusError
from lightbox.tools.optimize.pictures import LEAST_CALIBRATING, Picture
from lightbox.tools.optimize.trial import Subject, TrialFailed, answered, in_process


def basis_of(pictures: Sequence[Picture]) -> str:
    """Return a sentence that names pictures."""
    total = hashlib.sha256("".join(picture.digest for picture in pictures).encode()).hexdigest()
    return f"calibrated with {len(pictures)} pictures ({total[:12]})"


def make(subject: Subject, pictures: Sequence[Picture]) -> None:
    """Write the INT8 model into the version's folder, unless it is there. Raises TrialFailed."""
    if len(pictures) < LEAST_CALIBRATING:
        raise TrialFailed(f"it takes {LEAST_CALIBRATING - len(pictures)} more pictures to calibrate it")
    missing = [name for name in ("openvino", "nncf") if find_spec(name) is None]
    if missing:
        raise TrialFailed(f"{' and '.join(missing)} is not installed: pip install 'lightbox-serve[int8]'")
    try:
        known = quantized(place_of(subject), DEFAULT_SIGNATURE, digest(subject.folder))
    except StatusError:
        known = None
    if known is None or known.summary != basis_of(pictures):
        task = {"model": subject.path, "options": subject.options, "folder": str(subject.folder), "pictures": pictures}
        in_process("lightbox.tools.optimize.calibration", task)


def remove(subject: Subject) -> None:
    """Remove the INT8 model."""
    for suffix in (".xml", ".bin", ".json"):
        Quantized.place(place_of(subject), DEFAULT_SIGNATURE).with_suffix(suffix).unlink(missing_ok=True)


def place_of(subject: Subject) -> Path:
    """Return the folder of the model's file, which links may lead to."""
    file = model_file(subject.folder)
    return file.place().parent if file else subject.folder


# ------------------------------------------------------------------ in the child


def _made(task: Mapping[str, Any]) -> bool:
    import nncf  # type: ignore[import-not-found]  # an extra

    import lightbox

    folder, pictures = Path(task["folder"]), [Picture(*item) for item in task["pictures"]]
    file = model_file(folder)
    graph = None if file else read_meta_graph(str(folder), ("serve",))
    if graph and (why := refusals(graph)[DEFAULT_SIGNATURE]):
        raise LightboxError(f"OpenVINO cannot answer it: {why}")
    TRIED.set(Setting())
    model = lightbox.load(task["model"], threads=1, **task["options"])
    inputs = [model.inputs(Path(picture.path).read_bytes()) for picture in pictures]
    read = read_signature(str(file.place()) if file else str(folder), graph, DEFAULT_SIGNATURE)
    made = nncf.quantize(read, nncf.Dataset(inputs), subset_size=len(inputs), preset=nncf.QuantizationPreset.MIXED)
    place = Quantized.place(file.place().parent if file else folder, DEFAULT_SIGNATURE)
    place.parent.mkdir(parents=True, exist_ok=True)
    imported().save_model(made, place, compress_to_fp16=False)
    Quantized(place, digest(folder), basis_of(pictures)).write()
    return True


if __name__ == "__main__":
    answered(_made)
