"""Why the user's code cannot be used; stops a start with one sentence."""

from __future__ import annotations


class UserCodeError(Exception):
    """A whole sentence that names the file and what is wrong with it."""
