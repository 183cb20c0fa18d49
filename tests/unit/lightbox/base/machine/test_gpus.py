"""Several GPUs: model server i uses GPU i modulo the number of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.base.machine.gpus import gpu_environ, gpu_names
from support.parameters import each

LISTED = """GPU 0: Tesla T4 (UUID: GPU-6c3cd1d2-4b0a-c3ae-2b6a-6a4d0e7f0000)
GPU 1: NVIDIA A100 (UUID: GPU-6c3cd1d2-4b0a-c3ae-2b6a-6a4d0e7f0001)
  MIG 1g.5gb      Device  0: (UUID: MIG-6c3cd1d2-4b0a-c3ae-2b6a-6a4d0e7f0002)
GPU 2: Tesla T4 (UUID: GPU-6c3cd1d2-4b0a-c3ae-2b6a-6a4d0e7f0003)
"""


@each(
    ("environ", "names"),
    [
        ({}, ["0", "1"]),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, ["0", "1"]),
        ({"NVIDIA_VISIBLE_DEVICES": "2,3,5"}, ["0", "1", "2"]),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-6c3cd1d2, GPU-6c3cd1d3"}, ["0", "1"]),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "3, 5"}, ["3", "5"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-6c3cd1d2,GPU-6c3cd1d3"}, ["GPU-6c3cd1d2", "GPU-6c3cd1d3"]),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, ["1"]),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_what_the_variables_leave_of_two_gpus(tmp_path: Path, environ: dict[str, str], names: list[str]) -> None:
    for address in ("0000:00:1e.0", "0000:00:1f.0"):
        (tmp_path / address).mkdir()
    assert gpu_names(environ, tmp_path) == names


@pytest.mark.parametrize(
    ("program", "names"),
    [
        (f"cat <<END\n{LISTED}END", ["0", "1", "2"]),
        ("echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'; exit 9", []),
        ("echo No devices were found", []),
    ],
)
def test_without_the_drivers_folder_nvidia_smi_is_asked(tmp_path: Path, program: str, names: list[str]) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    assert gpu_names({"PATH": f"{tmp_path}:/bin"}, tmp_path / "nowhere") == names


def test_a_machine_without_a_gpu(tmp_path: Path) -> None:
    assert gpu_names({"PATH": str(tmp_path)}, tmp_path / "nowhere") == []


def test_model_servers_take_turns() -> None:
    assert [gpu_environ(index, ["3", "5"]) for index in range(3)] == [
        {"CUDA_VISIBLE_DEVICES": "3"},
        {"CUDA_VISIBLE_DEVICES": "5"},
        {"CUDA_VISIBLE_DEVICES": "3"},
    ]


@pytest.mark.parametrize("gpus", [[], ["0"], ["7"]])
def test_where_there_are_not_several_nothing_is_said(gpus: list[str]) -> None:
    assert gpu_environ(1, gpus) == {}
