"""What TensorFlow Serving speaks: its messages, and the conversions between ndarrays and its two wires."""

RELEASE = "2.21.0"
"""Of tensorflow-serving-api and of TensorFlow, whose messages ``messages.binpb`` describes."""
