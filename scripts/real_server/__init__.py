"""Checks a tensorflow_model_server, and Lightbox on top of it, against the recording of the real one."""
