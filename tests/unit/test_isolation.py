"""No test starts Lightbox with a default, or with a variable of the shell that started pytest."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from support import commands
from support.isolation import is_lightbox, own_environ
from support.parameters import each
from support.stack import REPOSITORY

CALLERS = {
    "AIP_HTTP_PORT": "1",
    "AWS_PROFILE": "caller",
    "K_SERVICE": "caller",
    "LIGHTBOX_MODEL_DIR": "/caller",
    "OTEL_SERVICE_NAME": "caller",
    "PORT": "1",
    "PYTHONWARNINGS": "error",
    "SAGEMAKER_BIND_TO_PORT": "1",
}
TESTS = """
import os, subprocess, sys
import pytest
from support.isolation import own_environ

CALLERS = {callers}
LIGHTBOX = [sys.executable, "-P", "-m", "lightbox", "--version"]

def started(**options):
    try:
        return subprocess.run(LIGHTBOX, **options).returncode
    except BaseException:
        return None

@pytest.fixture
def by_fixture():
    started()

def test_own():
    environ = own_environ()
    assert started(env=environ) == 0
    assert [name for name in CALLERS if name in os.environ or environ.get(name) == CALLERS[name]] == []

def test_own_beside():
    one, other = own_environ(), own_environ()
    assert one["SAGEMAKER_BIND_TO_PORT"] != other["SAGEMAKER_BIND_TO_PORT"]
    assert one["TMPDIR"] != other["TMPDIR"]

def test_swallowed():
    started()

def test_fixture(by_fixture):
    pass

@pytest.mark.parametrize("name", ["SAGEMAKER_BIND_TO_PORT", "SAGEMAKER_SAFE_PORT_RANGE", "TMPDIR", "HOME"])
def test_lacks(name):
    environ = own_environ()
    del environ[name]
    started(env=environ)

def test_spawned():
    os.posix_spawn(sys.executable, LIGHTBOX, {{}})
"""


def test_a_start_around_the_environment_fails_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_starts.py").write_text(TESTS.format(callers=CALLERS))
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "conftest.py").write_text(f"import sys; sys.path[:0] = {[str(REPOSITORY / 'tests')]}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "support.isolation", "-rA"]
    environ = os.environ | CALLERS | {"PYTHONPATH": str(REPOSITORY / "tests")}
    done = commands.run(command, env=environ, cwd=tmp_path)
    words = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR"))]
    outcomes: dict[str, set[str]] = {}
    for outcome, name in words:
        outcomes.setdefault(outcome, set()).add(name.partition("::")[2].partition("[")[0])
    assert outcomes == {
        "PASSED": {"test_own", "test_own_beside"},
        "FAILED": {"test_swallowed", "test_lacks", "test_spawned"},
        "ERROR": {"test_fixture"},
    }, done.stdout + done.stderr


@each(
    ("command", "found"),
    [
        (["/x/serve.sh", "serve"], True),
        (["lightbox", "--help"], True),
        ([sys.executable, "-P", "-m", "lightbox.model_runtime.server"], True),
        (["make", "serve"], True),
        (["unshare", "--net", "sh", "-ec", "mount x; exec /x/serve.sh serve"], True),
        (["sh", "-c", '"$0" serve', "/x/serve.sh"], True),
        (["bash", "-ec", "curl x\nlightbox predict photos"], True),
        (["bash", "-c", "python -m lightbox serve"], True),
        (["timeout", "9", "env", "A=b", "/x/bin/lightbox", "serve"], True),
        (["sudo", "-u", "x", "lightbox", "check"], True),
        (["unshare", "--user", "ls", "/home/me/lightbox"], False),
        (["git", "-C", "/home/me/lightbox", "status"], False),
        ([sys.executable, "-c", "import lightbox"], False),
        (["make", "docs"], False),
        (["bash", "-ec", "curl localhost/lightbox"], False),
    ],
)
def test_which_commands_are_lightbox(command: list[str], found: bool) -> None:
    assert is_lightbox(command) is found


def test_a_script_is_read(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("cd /x\n./serve.sh serve\n")
    assert is_lightbox(["bash", str(tmp_path / "script")])
    assert not is_lightbox(["bash", str(tmp_path / "other")])
    assert own_environ(tmp_path)["TMPDIR"] == str(tmp_path)
