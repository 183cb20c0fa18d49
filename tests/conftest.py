"""Fixtures that several test modules share: models and a running stack, made once a run."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from model_zoo import digits, efficientdet_d1
from model_zoo.saved_model import export, quiet_tensorflow
from support import samples
from support.browser import Page, browser
from support.held import Door
from support.made_models import made
from support.models import GOLDEN, copy_golden
from support.page_models import page_models
from support.stack import Stack, free_port, running

# How long an example takes says how busy the machine is; what must be quick is measured in turns.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


_BASETEMP = pytest.StashKey[Path]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give all temporary files short paths: a unix socket's path may have 108 bytes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what runs in the background, and all that is started from here would ignore it too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" not in os.environ and config.option.basetemp is None:
        config.stash[_BASETEMP] = folder = Path(tempfile.mkdtemp(prefix="t-"))
        config.option.basetemp = str(folder / "t")


SHARING = {
    "stack": (
        "e2e/test_clients_page.py",
        "e2e/test_errors.py",
        "e2e/test_fast_decode.py",
        "e2e/test_images.py",
        "e2e/test_kserve_grpc.py",
        "e2e/test_kserve_rest.py",
        "e2e/test_op_threads.py",
        "e2e/test_predict_folder.py",
        "e2e/test_readme.py",
        "e2e/test_smuggling.py",
    ),
    "page_stack": ("e2e/test_page.py", "e2e/test_page_errors.py", "e2e/test_page_files.py", "e2e/test_page_use.py"),
    "golden_stack": ("e2e/test_content_types.py", "e2e/test_content_types_page.py", "e2e/test_openapi.py"),
    "tensorflow": (
        "unit/lightbox/images/test_transform.py",
        "unit/lightbox/model/test_saved_model.py",
        "unit/lightbox/transports/test_predict_messages.py",
        "unit/model_server/test_tensor_proto.py",
        "unit/scripts/test_benchmark_servers.py",
        "unit/scripts/test_detections.py",
        "unit/scripts/test_export_model.py",
        "unit/scripts/test_folding.py",
        "unit/scripts/test_input_forms.py",
        "unit/scripts/test_published.py",
        "unit/scripts/test_weights.py",
    ),
}
"""Modules that run in one process, as they share what takes long: a fixture of the session, or an import."""
LONGEST = (
    "tests/image/",
    "tests/slow/test_engine_corpus.py",
    "tests/slow/test_soak.py",
    "tests/slow/test_openapi.py",
    "tests/slow/test_check_real_server.py",
    "tests/slow/test_detection.py",
    "tensorflow",
    "stack",
    "tests/e2e/test_stops.py",
    "tests/e2e/test_life_cycle.py",
    "tests/contract/test_engines.py",
    "tests/contract/test_golden_transcripts.py",
    "tests/unit/lightbox/test_cost_in_time.py",
    "tests/unit/lightbox/test_cost_in_memory.py",
    "tests/e2e/",
    "tests/contract/",
)
"""What begins first, so that no process is left with the longest at the end."""
_SHARED_IN = {f"tests/{module}": shared for shared, modules in SHARING.items() for module in modules}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let ``--dist loadscope`` give the modules of SHARING to one process, and of the others each module to one."""
    if config.getvalue("dist") != "loadscope":
        return None

    config.option.loadscopereorder = False  # else in the order of how many tests there are, however short
    scheduler = import_module("xdist.scheduler").LoadScopeScheduling(config, log)
    scheduler._split_scope = scope_of
    return scheduler


def scope_of(nodeid: str) -> str:
    """Return what one process runs as a whole: the modules that share something, or the test's module."""
    module = nodeid.split("::", 1)[0]
    return _SHARED_IN.get(module, module)


def _begins(item: pytest.Item) -> int:
    scope = scope_of(item.nodeid)
    return next((place for place, name in enumerate(LONGEST) if scope.startswith(name)), len(LONGEST))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for module in _SHARED_IN:
        if not (config.rootpath / module).is_file():
            raise pytest.UsageError(f"SHARING in tests/conftest.py: there is no {module}")
    for item in items:
        module, names = item.nodeid.split("::", 1)[0], getattr(item, "fixturenames", ())
        for fixture in SHARING:
            if fixture in names and _SHARED_IN.get(module) != fixture and not module.startswith("tests/slow/"):
                raise pytest.UsageError(f"{module} takes {fixture}: name it in SHARING in tests/conftest.py")
    items.sort(key=_begins)


def pytest_unconfigure(config: pytest.Config) -> None:
    if (folder := config.stash.get(_BASETEMP, None)) is not None:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def closed_port() -> Iterator[int]:
    """A loopback port on which nothing listens."""
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
    """The same door, shut, and opened at the end of the test however that comes."""
    module_door.shut()
    yield module_door
    module_door.open()


@pytest.fixture(scope="session")
def sample_models() -> Path:
    """The folder of ``make models``, mobilenet_v2 and digits."""
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
    environ = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "mobilenet_v2", "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port())}
    with running(sample_models, tmp_path_factory.mktemp("stack"), **environ) as running_stack:
        yield running_stack


@pytest.fixture(scope="session")
def page_stack(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The models of the page's tests, with the page."""
    folder = tmp_path_factory.mktemp("page")
    models = page_models(folder / "models", sample_models)
    environ = {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "mobilenet_v2",
        "LIGHTBOX_PAGE": "true",
    }
    with running(models, folder / "run", **environ) as running_stack:
        yield running_stack


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser without a window, for all tests of the page."""
    with browser() as driver:
        yield driver


@pytest.fixture
def page(page_stack: Stack, chromium: Any) -> Iterator[Page]:
    """The page, loaded anew. What the browser complains of must be looked at by the test, or fails it."""
    opened = Page(chromium, page_stack.url).open()
    yield opened
    assert opened.complaints() == []


@pytest.fixture(scope="session")
def golden_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All recorded models, with their description. Tests that harm it start their own."""
    folder = tmp_path_factory.mktemp("golden")
    for path in GOLDEN.iterdir():
        copy_golden(path.name, folder / "models" / path.name)
    environ = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half_plus_two", "LIGHTBOX_OPENAPI": "true"}
    with running(folder / "models", folder / "run", **environ) as running_stack:
        yield running_stack
