"""The servers and programs compared with Lightbox. They run without it: the servers in .venv-bench."""

WORKERS = 2
"""Of each server, Lightbox among them."""
