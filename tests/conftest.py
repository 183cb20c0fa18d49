"""Fixtures shared by test modules: models and a running stack, made once per run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from lightbox.tools.model_zoo import digits, efficientdet_d1
from lightbox.tools.model_zoo.export import export, quiet_tensorflow
from support import s3_server, samples
from support.browser import Page, browser
from support.held import Door
from support.made_models import made
from support.models import GOLDEN, copy_golden
from support.page_models import page_models
from support.stack import Stack, free_port, running

pytest_plugins = ["support.isolation"]

TESTS = Path(__file__).parent
SHORT_PATH = 24
"""Bytes that leave room, in the 108 of a unix socket's path, for pytest's folders and Lightbox's."""
_BASETEMP = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give all temporary files short paths: a unix socket's path may have 108 bytes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what runs in the background, and all that is started from here would ignore it too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" not in os.environ and config.option.basetemp is None:
        config.stash[_BASETEMP] = folder = _short_folder()
        config.option.basetemp = str(folder / "t")
        # Also for what programs make without a folder of a test's: it goes with the folder.
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # The cache of model checks must not affect later runs or the user's home.
        os.environ["XDG_CACHE_HOME"] = f"{config.option.basetemp}-cache"
        config.pluginmanager.register(_FailuresAtOnce(config))


class _FailuresAtOnce:
    """Names each failure when it comes: a run that is ended from outside never prints its summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            terminal = self._config.pluginmanager.getplugin("terminalreporter")
            reason = getattr(getattr(report.longrepr, "reprcrash", None), "message", "") or report.longreprtext
            terminal.line("")
            seconds = f"after {time.monotonic() - self._began:.0f} s, {report.duration:.0f} s of them"
            terminal.line(f"failed {seconds}: {report.nodeid} ({report.when}): {' '.join(reason.split())[:300]}")


def _short_folder() -> Path:
    """Make a folder in TMPDIR where the path of that is short, else in another place for temporary files."""
    for parent in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        if len(os.fsencode(parent)) <= SHORT_PATH and os.access(parent, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix="t-", dir=parent))
    raise pytest.UsageError(f"TMPDIR: expected a path of at most {SHORT_PATH} bytes, for the unix sockets below it")


LONGEST = ("test_image.py", "test_ray.py")
"""Modules that take ten minutes of ``make test-all``."""
SHARED_STACKS = ("stack", "page_stack", "golden_stack", "keyed")
"""Fixtures of the session whose tests run in one process, as each process would start a stack of its own."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, before its imports, a module that ``make test``, or ``make test-all``, has nothing of."""
    if (marks := config.option.markexpr) not in ("extended", "not extended") or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    if marks == "not extended":
        return "\npytestmark = pytest.mark.extended\n" in text or None
    return not (_is_extended(collection_path) or "extended" in text or "few_of" in text) or None


def _is_extended(path: Path) -> bool:
    return path.relative_to(TESTS).parts[0] in ("slow", "image")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what is not part of ``make test``: all of two folders, beside what is marked where it stands."""
    if _is_extended(item.path):
        item.add_marker("extended")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest jobs of one process: those of ``LONGEST``, then the tests that share a stack."""
    items.sort(key=lambda item: (item.path.name not in LONGEST, _shared_stack(item) is None))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Tell the process that gives out the tests which share a stack: it knows their names alone."""
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw0":
        groups = {item.nodeid: stack for item in session.items if (stack := _shared_stack(item))}
        Path(session.config.option.basetemp).with_name("groups.json").write_text(json.dumps(groups))


def _shared_stack(item: pytest.Item) -> str | None:
    return next((stack for stack in SHARED_STACKS if stack in getattr(item, "fixturenames", ())), None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let ``--dist loadscope`` give the tests that share a stack to one process, of others each module to one."""
    if config.getvalue("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False  # else in the order of how many tests there are, however short
    scheduler = import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    groups = cache(lambda: json.loads((Path(config.option.basetemp) / "groups.json").read_text()))
    scheduler._split_scope = lambda nodeid: groups().get(nodeid) or nodeid.partition("::")[0]
    return scheduler


def pytest_unconfigure(config: pytest.Config) -> None:
    if (folder := config.stash.get(_BASETEMP, None)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def closed_port() -> Iterator[int]:
    """A loopback port without a listener."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(scope="module")
def module_door(tmp_path_factory: pytest.TempPathFactory) -> Door:
    """The door of a module's held models (support/held.py), for fixtures of the module; it is open between tests."""
    door = Door(tmp_path_factory.mktemp("door") / "door")
    door.open()
    return door


@pytest.fixture
def door(module_door: Door) -> Iterator[Door]:
    """The same door, shut; it opens at the end of the test in any case."""
    module_door.shut()
    yield module_door
    module_door.open()


@pytest.fixture(scope="session")
def sample_models() -> Path:
    """The folder of ``make models``."""
    return samples.sample_models()


@pytest.fixture(scope="session")
def trained_digits() -> Any:
    """The digits net as a Keras model, trained apart from the samples."""
    quiet_tensorflow()
    import keras

    folder = made("trained_digits", lambda folder: digits.trained_model().save(folder / "digits.keras"))
    return keras.saving.load_model(folder / "digits.keras")


@pytest.fixture(scope="session")
def detector() -> Path:
    """efficientdet_d1's folder, input uint8; the only one in its parent."""

    def make(folder: Path) -> None:
        quiet_tensorflow()
        export(efficientdet_d1.image_model(), "uint8", folder / "efficientdet_d1")

    return made("detector", make) / "efficientdet_d1"


@pytest.fixture(scope="session")
def stack(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The sample models, served as ``make serve`` does, and over gRPC as well. Tests that harm it start their own."""
    environ = {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "efficientnet_lite0",
        "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port()),
        "LIGHTBOX_OPENAPI": "true",
    }
    with running(sample_models, tmp_path_factory.mktemp("stack"), **environ) as running_stack:
        yield running_stack


@pytest.fixture(scope="session")
def page_stack(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The models of the page's tests, with the page."""
    folder = tmp_path_factory.mktemp("page")
    models = page_models(folder / "models", sample_models)
    environ = {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "efficientnet_lite0",
        "LIGHTBOX_PAGE": "true",
    }
    with running(models, folder / "run", **environ) as running_stack:
        yield running_stack


@pytest.fixture(scope="module")
def s3_environ() -> Iterator[dict[str, str]]:
    """A bucket of moto's server: the environment variables of its callers."""
    with s3_server.serving() as environ:
        yield environ


@pytest.fixture
def moto_s3(s3_environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A bucket of moto's server, with its environment variables set in this process."""
    for name, value in s3_environ.items():
        monkeypatch.setenv(name, value)
    return s3_environ


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless browser for all tests of the page."""
    with browser() as driver:
        yield driver


@pytest.fixture
def page(page_stack: Stack, chromium: Any) -> Iterator[Page]:
    """The page, freshly loaded, with both wires. Unchecked browser complaints fail the test."""
    opened = Page(chromium, page_stack.url).open()
    opened.wire("both")
    yield opened
    assert opened.complaints() == []


@pytest.fixture(scope="session")
def golden_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All recorded models with every API and their description. Tests that harm it start their own."""
    folder = tmp_path_factory.mktemp("golden")
    for path in GOLDEN.iterdir():
        copy_golden(path.name, folder / "models" / path.name)
    environ = {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half_plus_two",
        "LIGHTBOX_OPENAPI": "true",
        "LIGHTBOX_TFS_API": "true",
        "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port()),
    }
    with running(folder / "models", folder / "run", **environ) as running_stack:
        yield running_stack
