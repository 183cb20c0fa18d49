"""No code outside a feature's folder depends on it: Lightbox starts and answers without the folder and its line."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import requests

from lightbox.core.feature import Feature
from lightbox.features import FEATURES
from support import photos
from support import stack as support_stack
from support.models import copy_golden
from support.patience import PATIENCE
from support.stack import REPOSITORY, free_port, running

ON = {
    "open_inference": ("LIGHTBOX_KSERVE_GRPC_PORT",),
    "tfs_api": ("LIGHTBOX_TFS_API",),
    "deepstack": ("LIGHTBOX_DEEPSTACK",),
    "sessions": ("LIGHTBOX_SESSIONS",),
    "streams": ("LIGHTBOX_STREAMS",),
    "page": ("LIGHTBOX_PAGE",),
    "openapi": ("LIGHTBOX_OPENAPI",),
    "tracing": ("OTEL_EXPORTER_OTLP_ENDPOINT",),
}
"""Settings that turn on those features that can be on together."""
PHOTO = photos.path_of("images", "china.jpg")


def without(folder: Path, removed: Sequence[Feature]) -> Path:
    """Copy the served files to a folder, without these features; return its ``serve.sh``."""
    shutil.copytree(REPOSITORY / "container", folder / "container", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "serve.sh", folder / "serve.sh")
    (folder / ".venv").symlink_to(sys.prefix)
    features = folder / "container" / "lightbox" / "features"
    listed = features / "__init__.py"
    text = listed.read_text()
    for feature in removed:
        kind = type(feature).__name__
        lines = rf"^(from lightbox\.features\.{feature.name} import {kind}|    {kind}\(.*\),.*)\n"
        text, count = re.subn(lines, "", text, flags=re.MULTILINE)
        assert count == 2, f"{feature.name}: expected an import and a line in the list"
        shutil.rmtree(features / feature.name)
    listed.write_text(text)
    return folder / "serve.sh"


OTHERS = [feature for feature in FEATURES if feature.name != "sagemaker"]  # whose route takes the photo


@pytest.mark.parametrize("removed", [OTHERS[::2], OTHERS[1::2]], ids=["a half", "the others"])
def test_a_photo_is_answered_while_the_others_are_on(
    removed: Sequence[Feature], tmp_path: Path, closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_stack, "SERVE", without(tmp_path / "copy", removed))
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    rest = {feature.name for feature in FEATURES}.difference(feature.name for feature in removed)
    values = {
        "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port()),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{closed_port}",
    }
    environ = {variable: values.get(variable, "true") for name in rest for variable in ON.get(name, ())}
    with running(tmp_path / "models", tmp_path / "run", **environ) as stack:
        answer = stack.invoke(PHOTO.read_bytes(), Content_Type="image/jpeg")
        assert answer.status_code == 200, answer.text
        assert answer.json()["predictions"] == [pytest.approx(photos.photo(PHOTO.name).mean((0, 1)), abs=2)]
        document = requests.get(f"{stack.url}/openapi.json", timeout=PATIENCE)
        assert document.status_code == (200 if "openapi" in rest else 404), document.text
        paths = [process.environ()["PYTHONPATH"] for process in stack.processes("gunicorn")]
        assert paths
        assert all(path.startswith(str(tmp_path / "copy")) for path in paths)
        assert stack.stop() == 0
    assert "Traceback" not in stack.log
