"""A model in process needs no server."""

from __future__ import annotations

import sys

from support import commands


def test_no_server_is_imported() -> None:
    program = (
        "import sys, lightbox.tools.offline; "
        "print([name for name in ('flask', 'gunicorn', 'grpc', 'requests', 'lightbox.serving.worker') "
        "if name in sys.modules])"
    )
    assert commands.output([sys.executable, "-c", program]) == "[]\n"
