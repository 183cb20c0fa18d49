"""Builds the Dockerfile's image, checks its declarations and content, and reports them: ``make image``.

``tests/image`` runs it in each supported way.
"""
