"""Logs and timing."""
