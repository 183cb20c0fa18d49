"""What commands that take long tell their user, step by step, in the voice of the Makefile."""

import sys


def progress(line: str) -> None:
    """Say one step, at once."""
    print(f"== {line}", flush=True)


def warning(*lines: str) -> None:
    """Say what the user must not overlook, set off from the progress."""
    bar = "!" * 100
    print("\n".join([bar, *(f"!! {line}" for line in lines), bar]), file=sys.stderr, flush=True)
