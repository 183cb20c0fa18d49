"""Models: what they want, how they lie on disk, what is set for them."""
