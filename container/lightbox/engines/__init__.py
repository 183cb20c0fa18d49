"""What runs models, in whatever process. Each engine is a package in here that has an ``ENGINE``."""

ENGINES = ("tensorflow", "openvino", "onnxruntime")
DEFAULT = "tensorflow"
"""What answers SavedModels where nothing is said; files of other formats are answered as with ``AUTO``."""
AUTO = "auto"
"""What is said for the engine that suits a model best."""
