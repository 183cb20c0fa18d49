"""Observation of what runs: readiness, hangs, versions, metrics."""
