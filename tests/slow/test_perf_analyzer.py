"""Triton's perf_analyzer against the running stack, with the unchanged commands of docs/clients.md."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from support import commands
from support.isolation import own_environ
from support.patience import PATIENCE
from support.stack import REPOSITORY, free_port, running

PAGE = (REPOSITORY / "docs" / "clients.md").read_text()
SECTION = PAGE.partition("## perf_analyzer\n")[2].partition("\n## ")[0]
LINES = "".join(re.findall(r"^```sh\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL))
ASKED, AT_ONCE = 50, 2

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def library() -> None:
    if platform.machine() != "x86_64":
        pytest.skip("perf_analyzer is there for x86-64 alone")
    subprocess.run(["scripts/ensure_debian.sh", "libb64.so.0d", "libb64-0d"], cwd=REPOSITORY, check=True)


@pytest.mark.usefixtures("library")
def test_every_line_of_the_page_runs_to_its_end(sample_models: Path, tmp_path: Path) -> None:
    models = tmp_path / "models"
    shutil.copytree(sample_models / "digits", models / "digits")
    export = [sys.executable, "-m", "lightbox", "export", "digits", str(models / "digits_of_files")]
    commands.output([*export, "--input=bytes"], own_environ(), patience=None)
    grpc = free_port()
    environ = {"LIGHTBOX_KSERVE_GRPC_PORT": str(grpc), "LIGHTBOX_TFS_API": "true"}
    environ |= {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "digits"}
    with running(models, tmp_path / "run", **environ) as stack:
        lines = LINES.replace("localhost:8080", f"127.0.0.1:{stack.port}").replace(":8081", f":{grpc}")
        shell = ["bash", "-eo", "pipefail", "-c", lines]
        reply = commands.output(shell, own_environ(), REPOSITORY, patience=None)
        counts = {
            entry["name"]: entry["inference_stats"]
            for entry in requests.get(f"{stack.url}/v2/models/stats", timeout=PATIENCE).json()["model_stats"]
        }
    runs = LINES.count("--request-count")
    assert LINES.count(f"--concurrency-range {AT_ONCE} --request-count {ASKED}\n") == runs
    assert reply.count(f"Request count: {ASKED}\n") == runs == 5
    by_protocol = LINES.count("--request-count") - LINES.count("--service-kind")
    # The server counts a request after the response: the client's window may begin and end before some of them count.
    served = [int(count) for count in re.findall(r"Successful request count: (\d+)\n", reply)]
    assert len(served) == by_protocol == 4
    assert all(abs(count - ASKED) <= ASKED // 5 for count in served), served
    assert len(re.findall(r"compute infer [1-9]\d* usec", reply)) == by_protocol
    for model in ("digits", "digits_of_files"):
        # It sends slightly more requests than it counts.
        assert counts[model]["success"]["count"] >= 2 * ASKED
        assert counts[model]["fail"]["count"] == 0
