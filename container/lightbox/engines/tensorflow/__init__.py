"""TensorFlow's own runtime, through its C API."""
