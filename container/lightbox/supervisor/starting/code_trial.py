"""Import the user's code in a process of its own, and report the result.

Code that exits, crashes or hangs on import does no harm there. The process is
``python -m lightbox.serving.code_trial PLAN RESULT``: it imports the code as a worker would, and writes the result to
a file.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from lightbox.model.catalogue import PlannedModel
from lightbox.model.plan import ServingPlan
from lightbox.supervisor.starting.commands import PYTHON
from lightbox.user_code.api_detection import environ_without_code
from lightbox.user_code.paths import FILE_NAME, UserCodeError

IMPORT_SECONDS = 45.0
"""Time limit of an import in seconds, so that a start or load that cannot succeed ends within a minute."""


def trial_command(plan_file: Path, result: Path) -> list[str]:
    """Return the command that imports the code of a plan and writes the result."""
    return [*PYTHON, "lightbox.serving.code_trial", str(plan_file), str(result)]


def check_result(result: Path, code: int, late_after: float | None, replaced: str = "") -> None:
    """Raise UserCodeError with one sentence unless the process has imported everything.

    ``code`` is its exit code. ``late_after`` are the seconds after which it was killed, None if it ended by itself.
    ``replaced`` names requirements that may have replaced Lightbox's own.
    """
    content = json.loads(result.read_text()) if result.exists() else {}
    if code == 0 and content.get("done"):
        return
    file = content.get("file", FILE_NAME)
    if content.get("problem"):
        raise UserCodeError(str(content["problem"]))
    if late_after is not None:
        raise UserCodeError(f"{file}: importing it did not end within {late_after:g} s")
    ended = f"ended the process with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    if "file" not in content:
        raise UserCodeError(f"the sidecar cannot start: it {ended}{replaced}")
    raise UserCodeError(f"{file}: importing it {ended}")


def try_code(model: PlannedModel, run_dir: Path, seconds: float = IMPORT_SECONDS) -> None:
    """Import a model's code while serving, in this environment; raise UserCodeError if it cannot be used."""
    with TemporaryDirectory(prefix="code_check-", dir=run_dir) as folder:
        plan_file, result = Path(folder) / "plan.json", Path(folder) / "result.json"
        ServingPlan(models={model.name: model}, default_model=None, model_servers=()).write(plan_file)
        late_after: float | None = None
        try:
            # In our process group: if we are killed meanwhile, the supervisor kills the whole group.
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
