"""The embedded model server: tensorflow_model_server's flags, REST and gRPC, and the real TensorFlow runtime."""
