"""Servers that Lightbox is measured against. They run in .venv-bench, which has neither TensorFlow nor Lightbox."""
