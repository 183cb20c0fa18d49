"""A stack with all features enabled, and keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.http_server import EmptyPage, serving
from support.keys import APP, EVERYTHING, HEALTH_ROUTE, KEYS, bearer, key_line
from support.models import copy_golden
from support.stack import Stack, free_port, running


@pytest.fixture(scope="session")
def key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("".join(key_line(name, *rest) for name, rest in KEYS.items()))
    return file


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """Serve another site whose pages may call the stack."""
    with serving(EmptyPage) as url:
        yield url


@pytest.fixture(scope="session")
def keyed(key_file: Path, site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("keyed")
    copy_golden("image_mean", folder / "models" / "image_mean")
    environ = EVERYTHING | {
        "LIGHTBOX_KSERVE_GRPC_PORT": str(free_port()),
        "LIGHTBOX_API_KEYS": str(key_file),
        "LIGHTBOX_CORS_ORIGINS": f"{APP}, {site}",
        "AIP_HEALTH_ROUTE": HEALTH_ROUTE,
        "AIP_PREDICT_ROUTE": f"{HEALTH_ROUTE}:predict",
    }
    with running(folder / "models", folder / "run", **environ) as stack:
        loaded = stack.invoke(
            b'{"model_name": "image_mean", "url": "%s"}' % str(folder / "models" / "image_mean").encode(),
            "/models",
            Content_Type="application/json",
            **bearer("loader"),
        )
        assert loaded.status_code == 200, loaded.text
        yield stack
