"""Prepare the user's code before workers start: install its requirements, then try to import it.

The import runs in a process of its own with a worker's environment. So code that exits or hangs does no harm, and the
supervisor refuses the start with one sentence.
"""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from lightbox.base.run_dir import RunDir
from lightbox.base.telemetry.logs import log
from lightbox.model.plan import ServingPlan
from lightbox.model_runtime.access import MOST_OPTIONS, read_file
from lightbox.supervisor.child import Child
from lightbox.supervisor.starting.code_trial import IMPORT_SECONDS, check_result, trial_command
from lightbox.user_code.paths import FILE_NAME, UserCodeError, find_inference, find_requirements, has_lib

LOOPBACK = "localhost,127.0.0.1"


class CodeSetup:
    """Prepares the code of one plan; its child processes stop with the others."""

    def __init__(self, plan: ServingPlan, plan_file: Path, run_dir: RunDir, environ: Mapping[str, str]) -> None:
        folders = list(dict.fromkeys(folder for dirs in plan.all_code_dirs for folder in dirs))
        self._plan = plan
        self._searched = folders
        self._requirements = find_requirements(folders)
        self._packages = run_dir.path / "packages"
        self._result = run_dir.path / "code_check.json"
        self.environ = self._worker_environ(environ)
        self._pip = self._pip_child(self._requirements, environ)
        self._needed = [file for file in self._requirements if not has_lib(file)]
        self._pip_of_needed = self._pip_child(self._needed, environ)
        self._check = Child(
            "inference",
            trial_command(plan_file, self._result),
            self.environ,
            cwd=run_dir.path,
        )
        self.children = [self._pip, self._pip_of_needed, self._check]

    async def run(self, import_seconds: float = IMPORT_SECONDS) -> None:
        """Install and check; raise UserCodeError with one sentence if the code cannot be used."""
        if self._requirements:
            await self._install()
        if any(find_inference(dirs) for dirs in self._plan.all_code_dirs):
            await self._try_import(import_seconds)
        else:
            searched = f" in {' or '.join(map(str, self._searched))}" if self._searched else ""
            log(f"using the built-in request handling (no {FILE_NAME}{searched})")

    async def _install(self) -> None:
        """Install all requirements. With a ``lib/`` beside them a failure is accepted, as without a network."""
        for file in self._requirements:
            try:
                read_file(file, MOST_OPTIONS)
            except OSError as error:
                raise UserCodeError(f"{file} cannot be read: {error.strerror}") from None
        _make_environment(self._packages)
        failure = await self._run_pip(self._pip, self._requirements)
        optional = [str(file) for file in self._requirements if file not in self._needed]
        if failure and optional:
            log(f"{failure} Continuing without {', '.join(optional)}, with the lib/ beside it")
            failure = await self._run_pip(self._pip_of_needed, self._needed) if self._needed else ""
        if failure:
            raise UserCodeError(failure)

    async def _run_pip(self, pip: Child, files: Sequence[Path]) -> str:
        """Install the files' requirements; return a sentence on failure."""
        names = ", ".join(map(str, files))
        if find_spec("pip") is None:
            return f"{names} cannot be installed, pip is missing: install the packages with the image (docs/image.md)."
        log(f"installing {names}")
        code = await pip.run()
        if code != 0:
            words = next((line for line in reversed(pip.last_lines) if line.startswith("ERROR")), "")
            return f"{names} cannot be installed, pip ended with exit code {code}. {words}".rstrip()
        log(f"installed {names}")
        return ""

    async def _try_import(self, seconds: float) -> None:
        run = asyncio.create_task(self._check.run())
        done, _ = await asyncio.wait({run}, timeout=seconds)
        if not done:
            self._check.kill()
        replaced = f"; {', '.join(map(str, self._requirements))} may have replaced what Lightbox needs"
        check_result(self._result, await run, None if done else seconds, replaced if self._requirements else "")

    def _worker_environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return a worker's environment with the installed packages on the path and no proxy for loopback."""
        worker = dict(environ)
        if self._requirements:
            ours, *rest = environ.get("PYTHONPATH", "").split(os.pathsep)
            worker["PYTHONPATH"] = os.pathsep.join([ours, str(site_packages(self._packages)), *rest])
        for name in ("no_proxy", "NO_PROXY"):
            worker[name] = ",".join(filter(None, [environ.get(name), LOOPBACK]))
        return worker | _handler_environ(self._plan)

    def _pip_child(self, requirements: Sequence[Path], environ: Mapping[str, str]) -> Child:
        files = [part for file in requirements for part in ("-r", str(file))]
        python = str(self._packages / "bin" / "python")
        pip = [python, "-P", "-m", "pip", "install", "--no-user", "--no-input", "--disable-pip-version-check"]
        command = [*pip, "--no-warn-script-location", "--progress-bar=off", *files]
        # Relative paths in the file start at its folder. One retry waits a minute for an unreachable index.
        start = requirements[0].parent if requirements else None
        return Child("requirements", command, {"PIP_RETRIES": "1", **environ}, cwd=start)


def _handler_environ(plan: ServingPlan) -> dict[str, str]:
    """Return the environment variables that handlers have in AWS's container."""
    return {
        "TFS_DEFAULT_MODEL_NAME": str(plan.default_model),  # "None" in multi-model mode, as in AWS's container
        "TFS_GRPC_PORTS": ",".join(str(server.grpc_port) for server in plan.model_servers if server.grpc_port),
        "TFS_REST_PORTS": ",".join(str(server.rest_port) for server in plan.model_servers if server.rest_port),
    }


def site_packages(environment: Path) -> Path:
    """Return the folder of a virtual environment in which packages are installed."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(environment), "platbase": str(environment)}))


def _make_environment(folder: Path) -> None:
    """Make a virtual environment on top of ours: our packages count as installed and stay unchanged.

    The standard library's venv would do the same with another process and more files.
    """
    packages = site_packages(folder)
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(sys.executable)
    home = Path(getattr(sys, "_base_executable", sys.executable)).resolve().parent
    (folder / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    below = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (packages / "below.pth").write_text("\n".join(below) + "\n")
    configured = Path(sys.prefix) / "pip.conf"
    if configured.is_file():
        (folder / "pip.conf").symlink_to(configured)
