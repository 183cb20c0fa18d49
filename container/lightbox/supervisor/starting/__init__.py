"""Decisions and checks of a start, before the first process runs."""
