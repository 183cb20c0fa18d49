"""Why the user's code cannot be used; stops a start with one sentence."""

from __future__ import annotations

from lightbox.errors import StartError


class UserCodeError(StartError):
    """A whole sentence that names the file and what is wrong with it."""
