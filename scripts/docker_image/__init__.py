"""Builds the image of the Dockerfile, checks it as it will be run, and reports what is in it.

``python -m docker_image`` does all of it (``make image``); ``tests/image`` runs the same checks in CI.
"""
