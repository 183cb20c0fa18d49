"""OpenVINO: SavedModels as far as its answers are TensorFlow's, by a gate, a comparison and guards; other files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lightbox.engines.base import Runner
from lightbox.engines.engine import Choice, Engine, Opened, OpenOptions
from lightbox.formats import holds_model, model_file


class OpenVino(Engine):
    """Reads the files of other runtimes, without these."""

    name = package = "openvino"

    def opens(self, folder: Path) -> bool:
        """Whether it is a SavedModel, of which one in the text form is refused, or a file of another format."""
        return holds_model(folder)

    def open(self, folder: str, options: OpenOptions) -> Opened:
        """Load a file, or what OpenVINO may answer of a SavedModel; raise StatusError with what is refused."""
        self.check_installed()
        if (file := model_file(Path(folder))) is not None:
            from lightbox.engines.openvino.files import open_file

            return open_file(file, options)
        from lightbox.engines.openvino.graph import read_meta_graph
        from lightbox.engines.openvino.signatures import open_readable

        return open_readable(folder, read_meta_graph(folder, options.tags), options)

    def open_beside(self, folder: str, options: OpenOptions, reference: Callable[[], Runner] | None) -> Opened | None:
        """Load what is equal, and faster where there is the reference; None where the graph cannot be read."""
        from lightbox.engines.openvino.signatures import open_beside

        return open_beside(folder, options, reference)

    def choices(self, folder: str, options: OpenOptions, compares: bool, keeps: bool) -> Mapping[str, Choice]:
        """Return the verdict on each signature."""
        from lightbox.engines.openvino.signatures import choices

        return choices(folder, options, compares, keeps)


ENGINE = OpenVino()
