"""Texts about a setting."""

from __future__ import annotations

from support.parameters import each
from write_reference import WRITERS

WORKERS = "the number of cores, at most 64 and one for each 128 MiB of `LIGHTBOX_REQUEST_MEMORY_MB`"


@each(
    ("name", "shown"),
    [
        ("SAGEMAKER_BIND_TO_PORT` `--port", "integer 1..65535 | `8080`"),
        ("LIGHTBOX_DRAIN_SECONDS` `--drain-seconds", "number 0..3600, s | `30`"),
        ("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN` `--gpu-memory-margin", "number from 0 below 1 | `0.2`"),
        ("LIGHTBOX_METRICS` `--metrics", "boolean | `true`"),
        ("LIGHTBOX_LOG_FORMAT` `--log-format", "`text`, `json` | `text`"),
        ("LIGHTBOX_SCALING` `--scaling", "`none`, `unit`, `tf`, `torch`, `caffe` | unset"),
        ("SAGEMAKER_GUNICORN_WORKERS` `--workers", "integer 1..64 | " + WORKERS),
    ],
)
def test_a_setting_has_its_values_and_default(name: str, shown: str) -> None:
    assert any(line.startswith(f"| `{name}` | {shown} |") for line in WRITERS["settings"]())
