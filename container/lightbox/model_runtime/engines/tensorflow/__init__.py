"""TensorFlow's own runtime, through its C API."""

from __future__ import annotations

from pathlib import Path

from lightbox.model_runtime.engines.engine import Engine, Opened, OpenOptions
from lightbox.model_runtime.formats import is_saved_model
from lightbox.model_runtime.wire.status import Code, StatusError


class TensorFlow(Engine):
    """Runs models as ``tensorflow_model_server`` does."""

    name = package = "tensorflow"
    sets_results = True

    def opens(self, folder: Path) -> bool:
        """Whether it is a SavedModel."""
        return is_saved_model(folder)

    def open(self, folder: str, options: OpenOptions) -> Opened:
        """Load a SavedModel; raise StatusError with the runtime's code and text."""
        from lightbox.model_runtime.engines.tensorflow.session import TensorFlowSession

        try:
            session = TensorFlowSession(folder, options.tags, options.session_config, options.is_guarded)
        except ImportError as error:
            raise StatusError(Code.UNIMPLEMENTED, str(error)) from None
        return Opened(session, {})


ENGINE = TensorFlow()
