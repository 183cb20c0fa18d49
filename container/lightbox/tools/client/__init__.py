"""Callers of an endpoint: ``lightbox invoke``, ``predict`` and ``stream``."""
