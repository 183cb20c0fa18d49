"""Responses as TensorFlow Serving writes them in JSON; ``tfs_wire.rest`` reads requests."""
