"""Batches of requests for one run of a model."""
