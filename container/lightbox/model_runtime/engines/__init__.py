"""The engines that run models, in any process. Each engine is a package in here with an ``ENGINE``."""

ENGINES = ("tensorflow", "openvino", "onnxruntime")
DEFAULT = "tensorflow"
"""The default of the model server's flag, for SavedModels as in tensorflow_model_server. Other files have ``AUTO``."""
AUTO = "auto"
"""The name that chooses the best engine of each model: Lightbox's default."""
OPENING = {
    "tensorflow_savedmodel": ("tensorflow", "openvino"),
    "onnx": ("openvino", "onnxruntime"),
    "openvino_ir": ("openvino",),
    "litert": ("openvino",),
}
"""The engines that open a platform's models; each needs the package and the extra of its name."""
