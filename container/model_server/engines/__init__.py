"""What runs a SavedModel: TensorFlow's own runtime, or OpenVINO where its answers are the same."""
