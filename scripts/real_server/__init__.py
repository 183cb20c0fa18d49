"""Checks a tensorflow_model_server, and Lightbox on top of it, against what was recorded of the real one."""
