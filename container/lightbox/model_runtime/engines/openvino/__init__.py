"""OpenVINO: SavedModels where its results match TensorFlow's (graph check, comparison, guards), and other files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lightbox.model_runtime.engines.base import Runner
from lightbox.model_runtime.engines.engine import Choice, Engine, Opened, OpenOptions
from lightbox.model_runtime.engines.hardware import PRECISIONS
from lightbox.model_runtime.formats import ONNX, holds_model, model_file


class OpenVino(Engine):
    """Runs SavedModels and the files of other runtimes, without these."""

    name = package = "openvino"
    precisions = PRECISIONS

    def opens(self, folder: Path) -> bool:
        """Return whether it is a SavedModel, except for the text form, or a file of another format."""
        return holds_model(folder)

    def departures(self, folder: Path) -> list[str]:
        """Return the operations of an ONNX file, and the inputs, that it computes otherwise."""
        file = model_file(folder)
        if file is None or file.format != ONNX:
            return []
        from lightbox.model_runtime.engines.openvino.model_files import departures

        return departures(file)

    def open(self, folder: str, options: OpenOptions) -> Opened:
        """Load a file, or the allowed signatures of a SavedModel; raise StatusError with the refused ones."""
        self.check_installed()
        if (file := model_file(Path(folder))) is not None:
            from lightbox.model_runtime.engines.openvino.model_files import open_file

            return open_file(file, options)
        from lightbox.model_runtime.engines.openvino.graph import read_meta_graph
        from lightbox.model_runtime.engines.openvino.signatures import open_readable

        return open_readable(folder, read_meta_graph(folder, options.tags), options)

    def open_beside(self, folder: str, options: OpenOptions, reference: Callable[[], Runner] | None) -> Opened | None:
        """Load signatures with equal results, the faster ones beside a reference; None for an unreadable graph."""
        from lightbox.model_runtime.engines.openvino.signatures import open_beside

        return open_beside(folder, options, reference)

    def choices(self, folder: str, options: OpenOptions, compares: bool, keeps: bool) -> Mapping[str, Choice]:
        """Return the verdict on each signature."""
        from lightbox.model_runtime.engines.openvino.signatures import choices

        return choices(folder, options, compares, keeps)


ENGINE = OpenVino()
