"""What runs models, in whatever process. Each engine is a package in here that has an ``ENGINE``."""

from importlib.util import find_spec

ENGINES = ("tensorflow", "openvino", "onnxruntime")
DEFAULT = "tensorflow"
"""What answers SavedModels where nothing is said; files of other formats are answered as with ``AUTO``."""
AUTO = "auto"
"""What is said for the engine that suits a model best."""


def default() -> str:
    """Return what answers where nothing is said: DEFAULT where its package is installed, else AUTO."""
    return DEFAULT if find_spec(DEFAULT) else AUTO
