"""``python -m lightbox``: what serve.sh starts."""

import signal
import sys
from types import FrameType


def stop_early(number: int, frame: FrameType | None) -> None:
    """End a start that has not begun yet: nothing runs that would have to be stopped."""
    sys.exit(0)


# Before the imports below: they take a moment, in which a platform may already say stop.
signal.signal(signal.SIGTERM, stop_early)

from lightbox.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
