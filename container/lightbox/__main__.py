"""``python -m lightbox``: what serve.sh starts."""

import gc
import os
import signal
import sys
from types import FrameType


def stop_early(number: int, frame: FrameType | None) -> None:
    """End a start that has not begun yet: nothing is there to be cleaned up, and an exception might be caught."""
    os._exit(0)


# Before the imports below: a platform may stop this process while they run. serve.sh blocks the signals until here, so
# that none arrives before its handler is installed.
for stop in (signal.SIGTERM, signal.SIGINT):
    signal.signal(stop, stop_early)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})

for standard in (0, 1, 2):
    try:
        os.fstat(standard)
    except OSError:  # closed: else a socket would get its number, and the log
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)

gc.disable()  # imported objects stay: scanning them would take a tenth of a start
try:
    from lightbox.base.telemetry import output, relay
    from lightbox.cli import main
except ModuleNotFoundError as error:
    how = "run 'make setup' in a checkout, or 'pip install lightbox-serve'"
    sys.exit(f"lightbox: {sys.executable} has no module {error.name!r}: {how}")

gc.enable()


def run() -> int:
    """Run the command line and return its exit code: what the console script ``lightbox`` does."""
    if sys.argv[1:2] not in (["serve"], ["check"]):  # these clean up what they have begun
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.argv[1:2] in (["serve"], ["model-server"]):
        relay.relay_stderr()
    sys.stdout, sys.stderr = output.results(), output.log_to(2)
    try:
        try:
            return main(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except output.OutputLost as error:
        if not error.reader_ended:
            print(f"lightbox: {error.reason}", file=sys.stderr)
        raise


if __name__ == "__main__":
    sys.exit(run())
