"""A release's packages in fresh environments: the dependencies, and a prediction."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from install import configured, uv_options
from lightbox import __version__
from support import commands, photos
from support import stack as support_stack
from support.environments import python_of
from support.onnx_models import write_classifier
from support.released import packages
from support.stack import running

MINOR = 12
"""Of Python 3: ``test_first_paths`` installs with the others."""
RESIZE = "from lightbox.images.resize_library import resize_line"
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packages(tmp_path_factory.mktemp("release"))


def environment(folder: Path, minor: int, *installer: str, **environ: str) -> Path:
    """Make a virtual environment with packages, which Python compiles on import; return its ``bin``."""
    subprocess.run([python_of(minor), "-m", "venv", "--without-pip", folder], check=True)
    commands.output([sys.executable, "-m", *installer], os.environ | environ)
    return folder / "bin"


def test_a_fresh_environment_answers_a_photo(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = f"lightbox-serve[openvino]=={__version__}"
    folder, options = tmp_path / "venv", configured()
    words = (f"--python={folder}", f"--find-links={made}", *uv_options(options), wanted)
    cert = {"SSL_CERT_FILE": options["cert"]} if "cert" in options else {}
    programs = environment(folder, MINOR, "uv", "pip", "install", *words, **cert)
    listing = "from importlib.metadata import distributions; print(*(one.name for one in distributions()), sep='\\n')"
    installed = set(commands.output([programs / "python", "-c", listing]).lower().splitlines())
    assert {"lightbox-serve", "openvino"} <= installed
    assert {name for name in installed if name.startswith("tensorflow")} == set()
    listing = "from importlib.metadata import files; print(*files('lightbox-serve'), sep='\\n')"
    files = [Path(line) for line in commands.output([programs / "python", "-c", listing]).splitlines()]
    assert {file.name for file in files if file.parts[0] == ".."} == {"lightbox"}
    assert {file.parts[0] for file in files} == {"..", "lightbox", f"lightbox_serve-{__version__}.dist-info"}
    write_classifier(tmp_path / "models" / "colors" / "1" / "model.onnx")
    monkeypatch.setattr(support_stack, "SERVE", programs / "lightbox")
    with running(tmp_path / "models", tmp_path / "run", LIGHTBOX_ENGINE="openvino", PYTHONPATH="") as stack:
        answer = stack.invoke(photos.path_of("images", "china.jpg").read_bytes(), Content_Type="image/jpeg")
        assert answer.status_code == 200, answer.text
        assert len(answer.json()["predictions"]) == 1
    resize = commands.output([programs / "python", "-c", f"{RESIZE}; print(resize_line())"])
    assert "not compiled" not in resize and "cannot be loaded" not in resize


@pytest.mark.parametrize("compiler", ["cc", "none"])
def test_the_sources_bring_the_resize_where_there_is_a_compiler(made: Path, tmp_path: Path, compiler: str) -> None:
    """Without one the installation succeeds, too."""
    (sources,) = made.glob("*.tar.gz")
    path = os.environ["PATH"] if compiler == "cc" else str(tmp_path / "nothing")
    folder = tmp_path / "venv"
    words = (f"--python={folder}", "install", "--no-compile", "--no-deps", "--no-cache-dir", str(sources))
    programs = environment(folder, sys.version_info.minor, "pip", *words, PATH=path)
    resize = commands.output([programs / "python", "-c", f"{RESIZE}; print(resize_line())"])
    assert ("because the native resize is not compiled" in resize) == (compiler == "none")
    with tarfile.open(sources) as archive:
        assert f"{sources.name.removesuffix('.tar.gz')}/serve.sh" in archive.getnames()
