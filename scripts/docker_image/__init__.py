"""Builds the image of the Dockerfile, checks what it declares and holds, and reports what is in it: ``make image``.

``tests/image`` runs it in each of the ways that it is meant for.
"""
