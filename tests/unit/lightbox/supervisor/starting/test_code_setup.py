"""Set up the user's code in real processes, with each failure of an import or an installation."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from lightbox.base.run_dir import RunDir
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ModelServerAddress, ServingPlan
from lightbox.supervisor.starting import code_setup
from lightbox.supervisor.starting.child_environment import child_environ
from lightbox.supervisor.starting.code_setup import CodeSetup
from lightbox.user_code.paths import UserCodeError
from support.patience import PATIENCE
from support.wheels import write_wheel

from ...conftest import PassOnce

pytestmark = pytest.mark.extended


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "code"
    folder.mkdir(parents=True)
    return folder


ONE_SERVER = (ModelServerAddress(grpc_socket=Path("/run/x.sock"), grpc_port=1, rest_port=2),)


def setup_of(tmp_path: Path, *folders: Path, servers: tuple[ModelServerAddress, ...] = ONE_SERVER) -> CodeSetup:
    models = {
        f"m{index}": PlannedModel(name=f"m{index}", base_path=tmp_path, options=ModelOptions(), code_dirs=(folder,))
        for index, folder in enumerate(folders)
    }
    plan = ServingPlan(models=models, default_model="m0", model_servers=servers)
    plan_file = tmp_path / "plan.json"
    plan.write(plan_file)
    return CodeSetup(plan, plan_file, RunDir(), child_environ() | {"PIP_NO_INDEX": "1"})


def set_up(tmp_path: Path, *folders: Path, servers: tuple[ModelServerAddress, ...] = ONE_SERVER) -> None:
    asyncio.run(setup_of(tmp_path, *folders, servers=servers).run(import_seconds=PATIENCE))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_handlers_get_models_and_ports_from_the_environment(tmp_path: Path, code: Path) -> None:
    names = ("TFS_DEFAULT_MODEL_NAME", "TFS_GRPC_PORTS", "TFS_REST_PORTS")
    (code / "inference.py").write_text(f"""
import os
assert [os.environ[name] for name in {names}] == ["m0", "1,3", "2,4"]
def handler(data, context): ...
""")
    servers = (
        ModelServerAddress(grpc_socket=Path("/run/x.sock"), grpc_port=1, rest_port=2),
        ModelServerAddress(grpc_socket=Path("/run/x.sock"), grpc_port=3, rest_port=4),
    )
    set_up(tmp_path, code, servers=servers)


def test_the_process_that_starts_others_has_none_of_grpcs_handlers_of_a_fork() -> None:
    """These handlers can abort the child between fork and exec."""
    code = """
import asyncio, os, sys, lightbox.cli, lightbox.supervisor.supervisor
from lightbox.transports.model_status import ModelStatus
assert "grpc" not in sys.modules
try:
    asyncio.run(ModelStatus("unix:nowhere").versions("none"))
except OSError:
    assert "grpc" in sys.modules
    sys.exit(os.environ["GRPC_ENABLE_FORK_SUPPORT"] != "0")
sys.exit("somebody answered")
"""
    subprocess.run([sys.executable, "-c", code], env=child_environ() | {"GRPC_ENABLE_FORK_SUPPORT": "1"}, check=True)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import os; os._exit(0)", "importing it ended the process with exit code 0"),
        ("import os; os.abort()", "importing it was ended by signal 6"),
        ("import sys; sys.exit('no')", "cannot be imported: it calls sys.exit('no')"),
        ("def handler(data): ...", "handler is called with 2 arguments"),
    ],
)
def test_code_that_cannot_be_used(tmp_path: Path, code: Path, source: str, said: str) -> None:
    (code / "inference.py").write_text(source)
    with pytest.raises(UserCodeError) as caught:
        set_up(tmp_path, code)
    assert str(caught.value).startswith(str(code / "inference.py"))
    assert said in str(caught.value)


def test_code_that_does_not_end(tmp_path: Path, code: Path, pass_once: PassOnce) -> None:
    begun = tmp_path / "begun"
    source = f"import pathlib, signal\npathlib.Path({str(begun)!r}).touch()\nsignal.pause()"
    (code / "inference.py").write_text(source)
    pass_once(begun.exists)
    with pytest.raises(UserCodeError) as caught:
        asyncio.run(setup_of(tmp_path, code).run(import_seconds=7))
    assert str(caught.value) == f"{code / 'inference.py'}: importing it did not end within 7 s"


def test_threads_that_a_module_starts_do_not_hold_up_the_check(tmp_path: Path, code: Path) -> None:
    (code / "inference.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\ndef handler(d, c): ..."
    )
    set_up(tmp_path, code)


def test_every_models_code_is_tried(tmp_path: Path, code: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (code / "inference.py").write_text("def handler(data, context): ...")
    (other / "inference.py").write_text("1 / 0")
    with pytest.raises(UserCodeError, match=f"{other}/inference.py cannot be imported: ZeroDivisionError"):
        set_up(tmp_path, code, tmp_path / "none", other)


def test_requirements_of_several_models_are_installed_together(tmp_path: Path, code: Path) -> None:
    other = tmp_path / "other"
    for folder, name in ((code, "one"), (other, "two")):
        write_wheel(folder, name, {f"from_{name}": ""})
        (folder / "requirements.txt").write_text(f"--find-links {folder}\n{name}==1.0\n")
        (folder / "inference.py").write_text("import from_one, from_two, numpy\ndef handler(d, c): ...")
    set_up(tmp_path, code, other)


def test_requirements_that_exclude_each_other(tmp_path: Path, code: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    write_wheel(other, "one", {"from_one": ""})
    (other / "requirements.txt").write_text(f"--find-links {other}\none==1.0\n")
    (code / "requirements.txt").write_text("one==2.0\n")
    with pytest.raises(UserCodeError) as caught:
        set_up(tmp_path, code, other)
    assert f"{code}/requirements.txt, {other}/requirements.txt cannot be installed" in str(caught.value)
    assert "ERROR" in str(caught.value)
    assert "[requirements] ERROR" in capfd.readouterr().err


def test_requirements_beside_lib_may_fail(tmp_path: Path, code: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (code / "requirements.txt").write_text("nowhere==1.0\n")
    (code / "lib").mkdir()
    (code / "lib" / "from_lib.py").touch()
    (code / "inference.py").write_text("import from_lib\ndef handler(d, c): ...")
    set_up(tmp_path, code)
    assert f"Continuing without {code}/requirements.txt, with the lib/ beside it" in capfd.readouterr().err


def test_requirements_in_an_image_without_pip(tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code / "requirements.txt").write_text("packaging")
    monkeypatch.setattr(code_setup, "find_spec", lambda name: None)
    with pytest.raises(UserCodeError, match="pip is missing: install the packages with the image"):
        set_up(tmp_path, code)


def test_requirements_without_lib_are_installed_though_others_fail(tmp_path: Path, code: Path) -> None:
    other = tmp_path / "other"
    write_wheel(other, "one", {"from_one": ""})
    (other / "requirements.txt").write_text(f"--find-links {other}\none==1.0\n")
    (code / "requirements.txt").write_text("nowhere==1.0\n")
    (code / "lib").mkdir()
    (code / "inference.py").write_text("import from_one\ndef handler(d, c): ...")
    set_up(tmp_path, code, other)
    (other / "requirements.txt").write_text("nowhere==1.0\n")
    with pytest.raises(UserCodeError, match=f"^{other}/requirements.txt cannot be installed"):
        set_up(tmp_path, code, other)


def test_a_requirement_that_breaks_the_sidecar_is_blamed(tmp_path: Path, code: Path) -> None:
    write_wheel(code, "broken", {"orjson": "raise ImportError('this is no orjson')"})
    (code / "requirements.txt").write_text("./broken-1.0-py3-none-any.whl\n")
    (code / "inference.py").write_text("def handler(d, c): ...")
    with pytest.raises(UserCodeError) as caught:
        set_up(tmp_path, code)
    assert f"{code}/requirements.txt may have replaced what Lightbox needs" in str(caught.value)


def test_without_code_the_log_names_every_place_searched(
    tmp_path: Path, code: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "models" / "half_plus_two" / "code"
    set_up(tmp_path, own, code)
    assert f"using the built-in request handling (no inference.py in {own} or {code})" in capfd.readouterr().err


def test_an_empty_requirements_file_is_fine(tmp_path: Path, code: Path) -> None:
    (code / "requirements.txt").write_text("# nothing yet\n")
    set_up(tmp_path, code)
