"""A stand-in for tensorflow_model_server: same flags, same REST, same gRPC, the real TensorFlow runtime."""
