"""Configurations of models, as in the real server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support import commands
from support.isolation import own_environ
from support.model_server import COMMAND, MODELS

pytestmark = pytest.mark.extended


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return commands.run([*COMMAND, *flags], env=own_environ())


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ('config { base_path: "/models/slow" name: "x" }', "Illegal setting neither ModelServerConfig::model_type"),
        (
            'config { name: "x" base_path: "/models/slow" model_platform: "caffe" }',
            "Model x requests unsupported platform caffe",
        ),
        (
            'config { name: "x" model_platform: "tensorflow" }',
            "Expected model x to have an absolute path or URI; got base_path()=",
        ),
        (
            'config { name: "x" base_path: "/models/slow" model_platform: "tensorflow" } '
            'config { name: "x" base_path: "/models/strings" model_platform: "tensorflow" }',
            "Illegal to list model x multiple times in config list",
        ),
        (
            'config { name: "x" base_path: "/models/slow" model_platform: "tensorflow"'
            ' version_labels { key: "a" value: 1 } }',
            "Request to assign label to version 1 of model x, which is not currently available for inference",
        ),
    ],
)
def test_configurations_that_are_refused(tmp_path: Path, config: str, error: str) -> None:
    path = tmp_path / "models.config"
    path.write_text(f"model_config_list {{ {config} }}".replace("/models/", f"{MODELS}/"))
    ended = run(f"--model_config_file={path}")
    assert ended.returncode == 255
    assert error in ended.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "detail"),
    [("model_config_list {", ""), ("model_config_list { config { nme: 1 } }", 'no field named "nme"')],
)
def test_a_malformed_configuration_file(tmp_path: Path, text: str, detail: str) -> None:
    path = tmp_path / "models.config"
    path.write_text(text)
    ended = run(f"--model_config_file={path}")
    assert ended.returncode == 255
    assert re.search(r"Error parsing text-format tensorflow\.serving\.ModelServerConfig: 1:\d+: \S", ended.stderr)
    assert detail in ended.stderr
    assert ended.stdout == f"Failed to start server. Error: INVALID_ARGUMENT: Invalid protobuf file: '{path}'\n"


def test_an_empty_configuration_file(tmp_path: Path) -> None:
    path = tmp_path / "models.config"
    path.write_text("")
    ended = run(f"--model_config_file={path}")
    assert ended.returncode == 255
    assert ended.stdout == f"Failed to start server. Error: INVALID_ARGUMENT: {path}; Invalid argument\n"
