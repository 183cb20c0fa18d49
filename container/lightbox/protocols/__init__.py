"""How callers speak to Lightbox."""
