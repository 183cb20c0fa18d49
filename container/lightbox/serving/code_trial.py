"""The process that tries the user's code: ``python -m lightbox.serving.code_trial PLAN RESULT``.

``lightbox.supervisor.starting.code_trial`` starts it."""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from pathlib import Path

import lightbox.serving.worker  # noqa: F401 - what a worker has imported when it loads the user's code
from lightbox.base.machine.shared_files import replace_file
from lightbox.model.plan import ServingPlan
from lightbox.user_code.paths import UserCodeError, find_inference
from lightbox.user_code.registry import UserCode


def check(plan: ServingPlan, result: Path) -> int:
    """Import the code of every model; write ``{"file", "problem", "done"}`` and return the exit code."""
    user_code = UserCode()
    for folders in plan.all_code_dirs:
        file = str(find_inference(folders))
        _write(result, {"file": file})
        try:
            user_code.load_from(folders)
        except UserCodeError as error:
            if error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            _write(result, {"file": file, "problem": str(error)})
            return 1
    _write(result, {"done": True})
    return 0


def _write(result: Path, content: dict[str, object]) -> None:
    replace_file(result, json.dumps(content).encode())


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(message)s")
    logging.getLogger("lightbox").setLevel("DEBUG")  # what is loaded is said here, once for all workers
    code = check(ServingPlan.read(Path(sys.argv[1])), Path(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads that the user's code has started do not keep this process
