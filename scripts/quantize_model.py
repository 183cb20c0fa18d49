"""Makes an INT8 model of a SavedModel from a folder of photos, and reports the loss of accuracy.

make quantize MODEL=models/efficientnet_lite0 IMAGES=photos

Half of the images, at most --count, calibrate the model; the rest, at most --compare, compare it with f32. Images are
decoded, resized and scaled as Lightbox does it for this model. If they are in folders named after classes, by number
or by the label in code/lightbox.json, it also prints the accuracy. The option "precision": "int8" serves the result.

Exit code 0: the model is written; 1: it cannot be made; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lightbox.base.errors import LightboxError, StartError
from lightbox.base.request_context import RequestContext
from lightbox.base.telemetry import say
from lightbox.codecs.image import ImageCodec
from lightbox.images.decode import is_image
from lightbox.model.options import ModelOptions
from lightbox.model.spec import Array, SignatureSpec, image_input
from lightbox.model_files.checks import newest_folder, newest_signatures
from lightbox.model_files.layout import find_models
from lightbox.model_files.recipes import model_options
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino.compiled import properties, read_signature
from lightbox.model_runtime.engines.openvino.graph import read_meta_graph
from lightbox.model_runtime.engines.openvino.graph_check import refusals
from lightbox.model_runtime.engines.openvino.int8 import Quantized
from lightbox.model_runtime.engines.openvino.verdicts import digest
from lightbox.model_runtime.wire.status import StatusError
from lightbox.serving.settings_loading import load_settings
from lightbox.serving.worker import codec_options
from lightbox.supervisor.starting.models_on_disk import code_dirs
from lightbox.user_code.paths import find_code

SEED = 20180113
LEAST = 20
SECONDS_EACH = 60.0
SHOWN_EACH = 50


class CannotQuantize(Exception):
    """No INT8 model can be made; the message gives the reason."""


@dataclass(frozen=True)
class Photo:
    """An image and the class of its folder."""

    path: Path
    label: int | None


@dataclass(frozen=True)
class Subject:
    """The signature to quantize, of the newest version of a model."""

    folder: Path
    signature: SignatureSpec
    options: ModelOptions
    codec: ImageCodec

    def tensor(self, photo: Photo) -> Array:
        """Return the model's input, a batch of one; raise LightboxError if the file is not an image."""
        context = RequestContext(SECONDS_EACH)
        call = self.codec.decode([photo.path.read_bytes()], self.signature, self.options, context)
        return next(iter(call.inputs.values()))


def main(arguments: list[str] | None = None) -> int:
    """Quantize by the command line and return the exit code."""
    options = parse(arguments)
    try:
        subject = find_subject(options.model, options.signature)
        photos = find_photos(options.images, subject.options.labels or ())
        calibrating, comparing = divide(photos, options.count, options.compare)
        quantize(subject, calibrating, comparing)
    except (CannotQuantize, StartError, LightboxError, StatusError, OSError) as problem:
        print(f"quantize_model.py: {problem}", file=sys.stderr)
        return 1
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL", type=Path, help="the model's folder, with versions in it")
    parser.add_argument("--images", metavar="FOLDER", type=Path, required=True, help="photos as the model gets them")
    parser.add_argument("--signature", default="serving_default", help="the signature (serving_default)")
    parser.add_argument("--count", type=int, default=300, help="images that calibrate, at most (300)")
    parser.add_argument("--compare", type=int, default=1000, help="images that are compared, at most (1000)")
    return parser.parse_args(arguments)


def find_subject(root: Path, name: str) -> Subject:
    """Return the signature ``name`` of the newest version of the model in ``root``."""
    settings = load_settings()
    model = next(iter(find_models(root)), None) if root.is_dir() else None
    if model is None or len(find_models(root)) > 1:
        raise CannotQuantize(f"{root}: expected the folder of one model, with versions in it")
    signatures = newest_signatures(model)
    if name not in signatures:
        raise CannotQuantize(f"--signature: {root} has {', '.join(sorted(signatures))}, not {name!r}")
    wanted = image_input(signatures[name])
    if wanted is None or wanted.encoded:
        raise CannotQuantize(f"the signature {name!r} of {root} takes no pixels")
    folder = Path(newest_folder(model))
    if why := refusals(read_meta_graph(str(folder), ("serve",)))[name]:
        raise CannotQuantize(f"OpenVINO cannot answer the signature {name!r} of {root}: {why}")
    folders = code_dirs(model, ())
    if code := find_code(folders):
        say.progress(f"warning: {code} is not run: images are prepared by the built-in handling")
    options = model_options(model, folders, settings)
    return Subject(folder, signatures[name], options, ImageCodec(codec_options(settings)))


def find_photos(folder: Path, labels: Sequence[str]) -> list[Photo]:
    """Return the images below a folder, in a fixed random order; raise CannotQuantize if there are too few."""
    if not folder.is_dir():
        raise CannotQuantize(f"--images: {folder} is no folder")
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and _begins_as_image(path))
    if len(paths) < LEAST:
        raise CannotQuantize(f"--images: {folder} holds {len(paths)} images, expected at least {LEAST}")
    photos = [Photo(path, _class_of(path.parent.name, labels) if path.parent != folder else None) for path in paths]
    random.Random(SEED).shuffle(photos)  # noqa: S311 - not a secret
    return photos


def _begins_as_image(path: Path) -> bool:
    with path.open("rb") as file:
        return is_image(file.read(64))


def _class_of(name: str, labels: Sequence[str]) -> int | None:
    if name in labels:
        return labels.index(name)
    return int(name) if name.isdecimal() else None


def divide(photos: Sequence[Photo], count: int, compare: int) -> tuple[Sequence[Photo], Sequence[Photo]]:
    """Return the photos for calibration and those for comparison."""
    calibrating = photos[: min(count, len(photos) // 2)]
    return calibrating, photos[len(calibrating) :][:compare]


def quantize(subject: Subject, calibrating: Sequence[Photo], comparing: Sequence[Photo]) -> None:
    """Write the INT8 model of a subject and print the comparison."""
    import nncf  # type: ignore[import-not-found]  # in a separate environment
    import openvino

    name = subject.signature.name
    meta_graph = read_meta_graph(str(subject.folder), ("serve",))

    def model() -> Any:
        return read_signature(str(subject.folder), meta_graph, name)

    say.progress(f"{subject.folder}: calibrating with {len(calibrating)} images")
    batches = [subject.tensor(photo) for photo in calibrating]
    made = nncf.quantize(model(), nncf.Dataset(batches), subset_size=len(batches))
    core, said = openvino.Core(), properties(Hardware(1, 1))
    runs = {word: _run(core.compile_model(each, "CPU", said)) for word, each in (("f32", model()), ("INT8", made))}
    comparison = Comparison()
    for done, photo in enumerate(comparing, 1):
        tensor = subject.tensor(photo)
        comparison.add(photo.label, {word: run(tensor) for word, run in runs.items()})
        if done % SHOWN_EACH == 0 or done == len(comparing):
            say.progress(f"compared {done} of {len(comparing)} images")
    place = Quantized.place(subject.folder, name)
    place.parent.mkdir(parents=True, exist_ok=True)
    openvino.save_model(made, place, compress_to_fp16=False)
    Quantized(place, digest(subject.folder), comparison.summary(len(calibrating))).write()
    for line in comparison.lines():
        print(line)
    print(f'{place} is ready: serve it with LIGHTBOX_ENGINE=auto LIGHTBOX_OPTIONS=\'{{"precision": "int8"}}\'')


def _run(compiled: Any) -> Callable[[Array], tuple[list[Array], float]]:
    request = compiled.create_infer_request()

    def run(tensor: Array) -> tuple[list[Array], float]:
        start = time.process_time()
        outputs = [np.array(value) for value in request.infer([tensor]).values()]
        return outputs, time.process_time() - start

    return run


class Comparison:
    """Compares INT8 results with f32 results."""

    def __init__(self) -> None:
        self._same: list[bool] = []
        self._right: dict[str, list[bool]] = {"f32": [], "INT8": []}
        self._seconds: dict[str, list[float]] = {"f32": [], "INT8": []}
        self._apart = 0.0
        self._count = 0

    def add(self, label: int | None, results: dict[str, tuple[list[Array], float]]) -> None:
        """Add the results for one image: the outputs and the CPU seconds, by precision."""
        self._count += 1
        best: dict[str, int] = {}
        for word, (outputs, seconds) in results.items():
            self._seconds[word].append(seconds)
            if outputs[0].ndim == 2 and outputs[0].dtype.kind == "f":
                best[word] = int(outputs[0][0].argmax())
        if best:
            self._same.append(best["f32"] == best["INT8"])
            for word, found in best.items() if label is not None else ():
                self._right[word].append(found == label)
        for one, other in zip(results["f32"][0], results["INT8"][0], strict=True):
            if one.shape == other.shape and one.size:
                self._apart = max(self._apart, float(np.abs(one.astype(np.float64) - other.astype(np.float64)).max()))

    def summary(self, calibrated: int) -> str:
        """Return a sentence for the log: results differ from TensorFlow's."""
        same = f", the class of f32 for {np.mean(self._same):.1%} of {self._count} others" if self._same else ""
        return f"calibrated with {calibrated} images{same}; values differ by up to {self._apart:.3g}"

    def lines(self) -> Iterator[str]:
        """Yield the results, one line each."""
        if self._same:
            yield f"agreement: INT8 finds the class of f32 for {np.mean(self._same):.1%} of {self._count} images"
        if self._right["f32"]:
            right = {word: np.mean(found) for word, found in self._right.items()}
            yield f"accuracy: f32 {right['f32']:.1%}, INT8 {right['INT8']:.1%} of {len(self._right['f32'])} images"
        yield f"values differ by up to {self._apart:.3g}"
        times = {word: min(found) * 1e3 for word, found in self._seconds.items()}
        yield f"processor time for an image: f32 {times['f32']:.3g} ms, INT8 {times['INT8']:.3g} ms"


if __name__ == "__main__":
    sys.exit(main())
