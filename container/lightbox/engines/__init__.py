"""What runs models, in whatever process."""
