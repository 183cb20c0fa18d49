"""``lightbox optimize``: the cheapest setting of a model that is still right, on the user's pictures."""
