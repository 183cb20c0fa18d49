"""Models: their signatures, their layout on disk, and their options."""
