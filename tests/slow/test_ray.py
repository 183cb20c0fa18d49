"""Two Ray nodes on this machine, one of which is killed: each picture has one row, equal to a single process's."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from PIL import Image

from support import s3_server
from support.environments import environment
from support.isolation import own_environ
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, free_port

PYTHON = str(REPOSITORY / ".venv-ray" / "bin" / "python")
PICTURES, BROKEN, PART = 900, 10, 45
STORE_BYTES = 100_000_000
OF_RAY = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
OF_RAY["RAY_worker_niceness"] = "0"  # its default, 15, gives tasks next to no time beside other tests
TOP = {"top_k": 3}
PAGE = (REPOSITORY / "docs" / "millions-of-pictures.md").read_text().partition("## On Ray")[2]
LINES, PIPELINE = re.findall(r"^```(?:bash|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    environment(".venv-ray")
    with s3_server.serving() as of_s3:
        yield own_environ() | OF_RAY | of_s3 | {"PYTHONPATH": str(REPOSITORY / "container")}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small pictures; ten are truncated."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(47)
    for number, pixels in enumerate(random.integers(0, 256, (PICTURES, 4, 4, 3), np.uint8)):
        path = folder / f"{number:04}.jpg"
        Image.fromarray(pixels).resize((64, 48)).save(path)
        if number % (PICTURES // BROKEN) == 7:
            path.write_bytes(path.read_bytes()[:20])
    return folder


@pytest.fixture(scope="module")
def model(sample_models: Path) -> Path:
    return sample_models / "mobilenet_v2"


def predict(pictures: Path, target: Path, model: Path, *options: str) -> list[str]:
    command = [PYTHON, "-m", "lightbox", "predict", str(pictures), "--to", f"{target}/", "--model", str(model)]
    return [*command, "--options", json.dumps(TOP), "--part-rows", str(PART), *options]


def in_s3(model: Path, environ: dict[str, str]) -> str:
    """Copy a model to S3 and return its address."""
    client = s3_server.client(environ)
    for file in filter(Path.is_file, model.rglob("*")):
        client.upload_file(str(file), s3_server.BUCKET, f"models/{file.relative_to(model.parent)}")
    return f"s3://{s3_server.BUCKET}/models/{model.name}"


def parts(target: Path) -> list[Path]:
    return list(target.glob("*.json*"))


def rows_of(target: Path) -> list[dict[str, Any]]:
    """Return the rows of a folder of parts by picture name; Ray Data writes responses as JSON text."""
    lines = [line for part in parts(target) for line in part.read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    for row in found:
        row["path"] = Path(row["path"]).name
        row["response"] = json.loads(row["response"]) if isinstance(row["response"], str) else row["response"]
    return sorted(found, key=lambda row: str(row["path"]))


@pytest.fixture(scope="module")
def expected(pictures: Path, model: Path, environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The rows of a run in one process."""
    target = tmp_path_factory.mktemp("one") / "rows.jsonl"
    assert subprocess.run(predict(pictures, target, model), env=environ, check=False).returncode == 1
    found = rows_of(target)
    assert len(found) == PICTURES
    assert sum(row["response"] is None for row in found) == BROKEN
    return found


class Node:
    """A node of two CPUs with its own temporary folder; its processes are children of the last one."""

    def __init__(self, tmp: Path, environ: dict[str, str], *where: str) -> None:
        self.tmp = tmp
        self.tmp.mkdir()
        command = [PYTHON, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=2", *where]
        command += [f"--object-store-memory={STORE_BYTES}", "--min-worker-port=0", "--max-worker-port=0"]
        with (tmp / "log").open("wb") as log:
            self._process = psutil.Popen(command, env=environ | {"TMPDIR": str(tmp)}, stdout=log, stderr=log)

    def has_begun(self) -> bool:
        log = (self.tmp / "log").read_text()
        assert self._process.poll() is None, log
        return "Ray runtime started" in log

    def is_answering(self) -> bool:
        """Whether one of its processes runs one of our tasks."""
        try:
            names = [" ".join(process.cmdline()) for process in self._process.children(recursive=True)]
        except psutil.Error:  # one of them has just ended
            return False
        return any(name.startswith("ray::_predictions") or "MapBatches(Predict)).submit" in name for name in names)

    def kill(self) -> None:
        """Kill its processes with SIGKILL, to simulate a power loss."""
        if self._process.poll() is None:
            for process in [*self._process.children(recursive=True), self._process]:
                process.kill()
            self._process.wait(PATIENCE)


@pytest.fixture
def nodes(environ: dict[str, str]) -> Iterator[list[Node]]:
    """Two nodes; the first is the head."""
    # The folder holds unix sockets with long names.
    with tempfile.TemporaryDirectory() as path, ExitStack() as stack:
        address = f"127.0.0.1:{free_port()}"
        head = ["--head", f"--port={address.partition(':')[2]}", f"--ray-client-server-port={free_port()}"]
        head += ["--include-dashboard=false", f"--temp-dir={path}/ray"]
        found: list[Node] = []
        for number in range(2):
            where = [f"--address={address}"] if found else head
            found.append(Node(Path(path, str(number)), environ, "--node-ip-address=127.0.0.1", *where))
            stack.callback(found[-1].kill)
            assert any(found[-1].has_begun() for _ in poll())
        environ["RAY_ADDRESS"] = address
        yield found


@pytest.mark.parametrize("way", ["command", "pipeline"])
def test_a_node_is_lost_and_each_picture_has_one_row(
    way: str, nodes: list[Node], environ: dict[str, str], pictures: Path, model: Path, expected: Any, tmp_path: Path
) -> None:
    target = tmp_path / "rows.jsonl"
    assert LINES.endswith(" --ray auto\n")
    command = predict(pictures, target, model, "--ray", "auto")
    if way == "pipeline":
        program = PIPELINE.replace("s3://bucket/photos", str(pictures)).replace(
            "s3://bucket/cats", in_s3(model, environ)
        )
        program = program.replace('write_parquet("s3://bucket/answers.parquet")', f'write_json("{target}")')
        # Two from the beginning: a run that ends soon may not get more, and one node would do it all.
        assert "min_size=1," in program
        command = [PYTHON, "-c", program.replace("min_size=1,", "min_size=2,")]
    with subprocess.Popen(command, env=environ) as running:
        for _ in poll():
            assert running.poll() is None, "it ended before a node was lost"
            # Which of the nodes has work at a moment is Ray's choice.
            working = [node for node in nodes[1:] if node.is_answering()]
            if working and len(parts(target)) >= 4:
                break
        working[-1].kill()
        assert running.poll() is None
    assert running.returncode == (1 if way == "command" else 0)
    assert Counter(row["path"] for row in rows_of(target)).most_common(1)[0][1] == 1
    # A pipeline's rows have typed columns, too.
    assert [{name: row[name] for name in expected[0]} for row in rows_of(target)] == expected
    # Each node fetched the model once, regardless of its number of processes.
    assert [len(list(node.tmp.glob("lightbox-models-*/*[!k]"))) for node in nodes] == [1, 1]
