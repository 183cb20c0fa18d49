"""Runs models, and knows nothing of the sidecar: the embedded server, engines, formats, wire formats, native code."""
