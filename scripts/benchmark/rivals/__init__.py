"""The servers compared with Lightbox. They run in .venv-bench, without TensorFlow and Lightbox."""
