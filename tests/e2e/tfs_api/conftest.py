from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.models import GOLDEN, copy_golden
from support.stack import Stack, free_port, running


@pytest.fixture(scope="session")
def tfs_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("tfs")
    for path in GOLDEN.iterdir():
        copy_golden(path.name, folder / "models" / path.name)
    environ = {
        "LIGHTBOX_TFS_API": "true",
        "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port()),
        "LIGHTBOX_OPENAPI": "true",
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "half_plus_two",
    }
    with running(folder / "models", folder / "run", **environ) as found:
        yield found
