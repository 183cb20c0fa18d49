"""What TensorFlow Serving speaks: its messages, and the conversions between ndarrays and its two wires."""
