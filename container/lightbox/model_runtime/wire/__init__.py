"""TensorFlow Serving's messages, and the conversions between ndarrays and its gRPC and REST forms."""

RELEASE = "2.21.0"
"""Release of tensorflow-serving-api and of TensorFlow whose messages ``messages.binpb`` describes."""
