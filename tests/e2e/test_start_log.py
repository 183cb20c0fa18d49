"""The log of a start: each message once, on one line, in one format per process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.log_lines import without_times
from support.models import copy_golden
from support.stack import free_port, running

pytestmark = pytest.mark.extended

FORMS = {
    "lightbox": r"(warning: )?\S.*",
    "inference": r"\S.*",
    "grpc_front": r"(INFO|WARNING):lightbox:\S.*",
    "model_server": r"I \S.*",
}


# As JSON: tests/e2e/test_metrics_page_and_log.py.
def test_each_message_of_a_start_is_one_line_and_comes_once(tmp_path: Path) -> None:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    (tmp_path / "models" / "code").mkdir()
    (tmp_path / "models" / "code" / "inference.py").write_text(
        "def postprocess(outputs, request):\n    return outputs\n"
    )
    environ = {
        "SAGEMAKER_GUNICORN_WORKERS": "2",
        "SAGEMAKER_GUNICORN_WORKER": "3",
        "LIGHTBOX_TRANSPORT": "grpc,rest",
        "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port()),
    }
    with running(tmp_path / "models", tmp_path / "run", **environ) as stack:
        # The first worker answers while the second may still be starting.
        stack.wait_until(lambda: len(stack.processes("gunicorn")) == 3)
        lines = without_times(stack.log).splitlines()
    entries = [(found[1], found[2]) for found in (re.fullmatch(r"\[(\w+)\] (.*)", line) for line in lines) if found]
    assert len(entries) == len(lines)
    assert {process for process, _ in entries} >= {"lightbox", "inference"}
    for process, message in entries:
        assert re.fullmatch(FORMS[process], message), (process, message)
    assert len(entries) == len(set(entries))
    meant = "SAGEMAKER_GUNICORN_WORKER: there is no such setting; did you mean SAGEMAKER_GUNICORN_WORKERS?"
    assert ("lightbox", f"warning: {meant}") in entries
