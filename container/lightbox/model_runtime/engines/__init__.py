"""The engines that run models, in any process. Each engine is a package in here with an ``ENGINE``."""

from importlib.util import find_spec

ENGINES = ("tensorflow", "openvino", "onnxruntime")
DEFAULT = "tensorflow"
"""The default engine of SavedModels; files of other formats default to ``AUTO``."""
AUTO = "auto"
"""The name that chooses the best engine of each model."""


def default() -> str:
    """Return the default engine: DEFAULT if its package is installed, else AUTO."""
    return DEFAULT if find_spec(DEFAULT) else AUTO
