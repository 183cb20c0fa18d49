"""Pixels only, as pure functions: encoded bytes to RGB, RGB to the tensor a model wants."""
