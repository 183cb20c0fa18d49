"""Trying the user's code in a process of its own: how that is started, what it does, and what its end says.

Code which ends its process, crashes or hangs when it is imported harms nobody there. The process is
``python -m lightbox.code_trial PLAN RESULT``: it imports the code as a worker would, and writes down what came of it.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from lightbox.model.catalogue import PlannedModel
from lightbox.model.plan import ServingPlan
from lightbox.processes.commands import PYTHON
from lightbox.user_code.loader import environ_without_code
from lightbox.user_code.paths import FILE_NAME, UserCodeError

IMPORT_SECONDS = 45.0
"""How long an import of users' code may take: a start, or a load, that cannot succeed ends within a minute."""


def trial_command(plan_file: Path, result: Path) -> list[str]:
    """Return the command that imports the code of a plan and writes down what came of it."""
    return [*PYTHON, "lightbox.code_trial", str(plan_file), str(result)]


def check_result(result: Path, code: int, late_after: float | None, replaced: str = "") -> None:
    """Raise UserCodeError with one sentence unless the process has imported all.

    ``code`` is its exit code; ``late_after`` are the seconds after which it was ended, None where it ended by itself.
    ``replaced`` is what may keep our own code from being imported.
    """
    found = json.loads(result.read_text()) if result.exists() else {}
    if code == 0 and found.get("done"):
        return
    file = found.get("file", FILE_NAME)
    if found.get("problem"):
        raise UserCodeError(str(found["problem"]))
    if late_after is not None:
        raise UserCodeError(f"{file}: importing it did not end within {late_after:g} s")
    ended = f"ended the process with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    if "file" not in found:
        raise UserCodeError(f"the sidecar cannot start: it {ended}{replaced}")
    raise UserCodeError(f"{file}: importing it {ended}")


def try_code(model: PlannedModel, run_dir: Path, seconds: float = IMPORT_SECONDS) -> None:
    """Try a model's code while serving, in this process's environment; raise UserCodeError when it is no use."""
    with TemporaryDirectory(prefix="code_check-", dir=run_dir) as folder:
        plan_file, result = Path(folder) / "plan.json", Path(folder) / "result.json"
        ServingPlan(models={model.name: model}, default_model=None, model_servers=()).write(plan_file)
        late_after: float | None = None
        try:
            # In our process group: should we be killed meanwhile, the supervisor ends it with the rest of that.
            tried = subprocess.run(  # noqa: S603 - our own command
                trial_command(plan_file, result),
                env=environ_without_code(),
                cwd=run_dir,
                stdin=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
            )
            code = tried.returncode
        except subprocess.TimeoutExpired:
            code, late_after = -signal.SIGKILL, seconds
        check_result(result, code, late_after)
