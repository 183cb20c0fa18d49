"""Streams of frames: WebSockets whose binary messages are images and whose text messages are the predictions."""

import signal

RENEW_SIGNAL = signal.SIGWINCH
"""Tells the process that holds streams to end the open ones. Before it handles the signal, it ignores it."""
