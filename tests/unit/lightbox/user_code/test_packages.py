"""The packages that handlers of AWS's container import: the available ones, and the error for a missing one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from lightbox.user_code.api_detection import load_functions
from lightbox.user_code.paths import OTHERS, WITH_BUILD_ARGUMENT, UserCodeError
from support import commands

from .conftest import WriteCode

REQUIREMENTS = Path(__file__).parents[4] / "requirements"
IN_EVERY_IMAGE = ("aiohttp", "boto3", "botocore", "cloudpickle", "grpc", "numpy", "packaging", "requests", "yaml")


def packages(file: str) -> set[str]:
    lines = (REQUIREMENTS / file).read_text().splitlines()
    return {name[0] for line in lines if (name := re.match(r"[a-z][\w.-]*(?=[=>])", line))}


@pytest.mark.extended
def test_what_handlers_import_is_there() -> None:
    imports = "; ".join(f"import {module}" for module in (*IN_EVERY_IMAGE, *WITH_BUILD_ARGUMENT))
    commands.output([sys.executable, "-W", "error", "-c", imports])


def test_the_lock_files_have_it() -> None:
    in_every_image = {{"grpc": "grpcio"}.get(module) or OTHERS.get(module, module) for module in IN_EVERY_IMAGE}
    assert in_every_image <= packages("sidecar.lock") & packages("model_server.lock")
    assert in_every_image | set(WITH_BUILD_ARGUMENT.values()) <= packages("serve.lock")
    assert set(WITH_BUILD_ARGUMENT.values()) == packages("handlers_aws.in") - {"numpy"}


@pytest.mark.parametrize("image", ["sidecar.lock", "model_server.lock"])
def test_the_lock_files_agree(image: str) -> None:
    """The image installs them together: two versions of one package break the build."""

    def versions(name: str) -> dict[str, str]:
        return dict(re.findall(r"^([a-z][\w.-]*)==(\S+)", (REQUIREMENTS / name).read_text(), re.MULTILINE))

    ours, others = versions("handlers_aws.lock"), versions(image)
    assert {name: version for name, version in ours.items() if others.get(name, version) != version} == {}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "import sklearn",
            "use an image that is built with --build-arg HANDLER_PACKAGES=aws, add the line scikit-learn to "
            "code/requirements.txt, or put the package scikit-learn into code/lib/",
        ),
        ("import yaml", "; add the line pyyaml to code/requirements.txt, or put the package pyyaml into code/lib/"),
        ("import scipy.no_such_part", "No module named 'scipy.no_such_part'; put the package into code/"),
    ],
)
def test_an_error_says_how_to_install_a_missing_one(
    write_code: WriteCode, monkeypatch: pytest.MonkeyPatch, source: str, said: str
) -> None:
    for missing in ("sklearn", "yaml"):
        monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UserCodeError, match="cannot be imported: ModuleNotFoundError: ") as caught:
        load_functions(write_code(source))
    assert said in str(caught.value)
