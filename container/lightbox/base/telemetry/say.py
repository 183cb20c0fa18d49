"""Progress messages of long commands, in the style of the Makefile."""

import sys


def progress(line: str) -> None:
    """Print one step, unbuffered."""
    print(f"== {line}", flush=True)


def warning(*lines: str) -> None:
    """Print a warning, set off from the progress."""
    bar = "!" * 100
    print("\n".join([bar, *(f"!! {line}" for line in lines), bar]), file=sys.stderr, flush=True)
