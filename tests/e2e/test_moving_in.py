"""docs/moving-in.md: the lines below "After" are run, the files of all sections against one stack."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import numpy as np
import pytest

import deploy
from deployment.aws import Aws
from support.fakes import png
from support.models import copy_golden, export
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, free_port, running

pytestmark = pytest.mark.extended

PAGE = (REPOSITORY / "docs" / "moving-in.md").read_text()
AFTER = {
    title: body.partition("**After**")[2]
    for title, body in re.findall(r"^## From (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
BLOCK = re.compile(r"^```(sh|python)( files)?(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(title, *found) for title, text in AFTER.items() for found in BLOCK.findall(text)]
FILES = [(kind, path, text) for _, kind, files, path, text in BLOCKS if files]
LINES = [(title, kind, text) for title, kind, files, _, text in BLOCKS if not files]


def export_flowers(folder: Path) -> None:
    """Export what a converted network looks like: float32 [N, 224, 224, 3] to logits [N, 3]."""

    def make() -> Any:
        import tensorflow as tf

        @tf.function(input_signature=[tf.TensorSpec([None, 224, 224, 3], tf.float32, name="image")])  # type: ignore[untyped-decorator]
        def serve(image: Any) -> dict[str, Any]:
            return {"logits": tf.reduce_mean(image, axis=[1, 2])}

        return serve

    export("flowers_of_torch", make, folder, "tests/e2e/test_moving_in.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages begin with: files of each server, and an image."""
    found = tmp_path_factory.mktemp("moving_in")
    (found / "models").mkdir()
    copy_golden("half_plus_two", found / "serving" / "half_plus_two")
    copy_golden("image_mean", found / "ovms" / "image_mean")
    copy_golden("half_plus_two", found / "recorded")
    triton = found / "triton" / "plus_three"
    triton.mkdir(parents=True)
    (triton / "config.pbtxt").write_text('name: "plus_three"\nplatform: "tensorflow_savedmodel"\nmax_batch_size: 8\n')
    newest = max((found / "recorded").iterdir(), key=lambda version: int(version.name))
    (triton / "1").mkdir()
    newest.rename(triton / "1" / "model.savedmodel")
    (found / "converted" / "flowers").mkdir(parents=True)
    export_flowers(found / "converted" / "flowers" / "1")
    (found / "index_to_name.json").write_text(json.dumps({"0": "rose", "1": "sky", "2": ["n1", "leaf"]}))
    (found / "red.png").write_bytes(png(np.full((300, 400, 3), (200, 0, 0))))
    return found


@pytest.fixture(scope="module")
def moved_in(folder: Path) -> Iterator[Stack]:
    """A stack of the models as the page's lines leave them."""
    for kind, path, text in FILES:
        if kind == "python":
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    for kind, _, text in FILES:
        if kind == "sh":
            subprocess.run(["bash", "-e", "-c", text], cwd=folder, check=True)
    environ = {
        "LIGHTBOX_TFS_API": "true",
        "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port()),
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half_plus_two",
    }
    with running(folder / "models", folder / "run", **environ) as stack:
        yield stack


@pytest.mark.parametrize(
    ("kind", "text"), [line[1:] for line in LINES], ids=[f"{title}, {kind}" for title, kind, _ in LINES]
)
def test_the_lines_print_what_they_say(moved_in: Stack, folder: Path, kind: str, text: str) -> None:
    """In a process of their own: clients register messages of the same names."""
    code, _, printed = re.sub(r"\n# ", "\0", text, count=1).partition("\0")
    expected = printed.replace("\n# ", "\n").strip()
    assert expected, "the block has to say what it prints"
    for port, ours in (("8080", moved_in.port), ("8081", moved_in.environ["LIGHTBOX_KSERVE_GRPC_PORT"])):
        code = code.replace(f"localhost:{port}", f"127.0.0.1:{ours}")
    command = ["bash", "-e", "-c", code] if kind == "sh" else [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected


def test_every_section_but_that_of_arm_has_lines_that_are_run() -> None:
    assert len(AFTER) == 5
    assert {title for title, *_ in LINES} == {title for title in AFTER if "arm64" not in title}
    assert all("**Before**" in body for body in re.split(r"^## From ", PAGE, flags=re.MULTILINE)[1:])


def test_the_table_leads_to_every_section() -> None:
    rows = re.findall(r"^\| \[.*?\]\(#(.*?)\)", PAGE, re.MULTILINE)
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert rows == [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_the_lines_for_arm_name_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = [text for title, text in AFTER.items() if "arm64" in title]
    script = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)[0].replace("\\\n", " ")
    build, _, deployed = (shlex.split(line) for line in script.splitlines())
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert set(re.findall(r"--target (\w+)", text)) | {build[build.index("--target") + 1]} <= set(stages)
    role = "arn:aws:iam::123456789012:role/lightbox-execution"
    values = {"$image": "lightbox:arm64", "$model": "s3://b/model.tar.gz", "$role": role}
    options = deploy.parser().parse_args([values.get(word, word) for word in deployed[2:]] + ["--dry-run"])
    options.run(Aws("eu-central-1", dry_run=True), options)
    assert '"InstanceType": "ml.c7g.xlarge"' in capsys.readouterr().out
    known = (
        botocore.session.get_session().get_service_model("sagemaker").shape_for("ProductionVariantInstanceType").enum
    )
    for family in re.findall(r"ml\.[cmr]\dg", PAGE):
        assert f"{family}.xlarge" in known
