"""OpenVINO, where its answers are TensorFlow's: a gate, a comparison, and guards in the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lightbox.engines.base import Runner
from lightbox.engines.engine import Choice, Engine, Opened, OpenOptions
from lightbox.engines.files import is_saved_model


class OpenVino(Engine):
    """Reads the files of other runtimes, without these."""

    name = package = "openvino"

    def opens(self, folder: Path) -> bool:
        """Whether it is a SavedModel; one in the text form is refused."""
        return is_saved_model(folder)

    def open(self, folder: str, options: OpenOptions) -> Opened:
        """Load what OpenVINO may answer; raise StatusError with what the gate refuses."""
        self.check_installed()
        from lightbox.engines.openvino.graph import read_meta_graph
        from lightbox.engines.openvino.signatures import open_readable

        return open_readable(folder, read_meta_graph(folder, options.tags), options)

    def open_beside(self, folder: str, options: OpenOptions, reference: Callable[[], Runner] | None) -> Opened | None:
        """Load what is equal, and faster where there is the reference; None where the graph cannot be read."""
        from lightbox.engines.openvino.signatures import open_beside

        return open_beside(folder, options, reference)

    def tell(self, folder: str, options: OpenOptions, compares: bool, keeps: bool) -> Mapping[str, Choice]:
        """Return the verdict on each signature."""
        from lightbox.engines.openvino.signatures import tell

        return tell(folder, options, compares, keeps)


ENGINE = OpenVino()
