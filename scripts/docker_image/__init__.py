"""Builds the image of the Dockerfile, checks its declarations and content, and reports it: ``make image``.

``tests/image`` runs it in each of the ways that it is meant for.
"""
