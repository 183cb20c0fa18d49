"""The script that users run against the real server, against the embedded one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from real_server.parts import PARTS
from support.isolation import own_environ
from support.stack import REPOSITORY

pytestmark = pytest.mark.timeout(3600)


def test_the_embedded_server_passes() -> None:
    script = REPOSITORY / "scripts" / "check_real_server.py"
    command = [sys.executable, str(script), "--server", "embedded"]
    done = subprocess.run(command, env=own_environ(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\n   ok\n") == len(PARTS)
    assert "469 passed, 0 failed" in done.stdout
