"""Streams of frames: WebSockets whose binary messages are images and whose text messages are the predictions."""

import signal

RENEW_SIGNAL = signal.SIGWINCH
"""Tells their process to end those that are open. It harms no process that does not handle it yet."""
