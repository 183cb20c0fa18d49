"""Models on disk: their layout, archives, checks, and what reads a SavedModel."""
