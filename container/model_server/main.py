"""Start point of the stand-in model server."""

from __future__ import annotations


def main() -> int:
    """Run the server."""
    raise NotImplementedError
