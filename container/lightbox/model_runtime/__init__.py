"""Runs models, and knows nothing of the sidecar: the embedded server, engines, formats, wire formats, native code."""

RECORD_MARK = "LIGHTBOX_RECORD_MARK"
"""The variable with a text that begins each log record, by which its reader tells them from what a library prints."""
