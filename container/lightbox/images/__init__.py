"""Images as pure functions: encoded bytes to RGB, RGB to the tensor of a model."""
