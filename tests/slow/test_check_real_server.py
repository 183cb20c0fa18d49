"""The script that users run against the real server, against the embedded one."""

from __future__ import annotations

import sys

import pytest

from real_server.parts import PARTS
from support import commands
from support.isolation import own_environ
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)


def test_the_embedded_server_passes() -> None:
    script = REPOSITORY / "scripts" / "check_real_server.py"
    command = [sys.executable, str(script), "--server", "embedded"]
    reply = commands.output(command, own_environ(), patience=None)
    assert reply.count("\n   ok\n") == len(PARTS)
    assert "469 passed, 0 failed" in reply
