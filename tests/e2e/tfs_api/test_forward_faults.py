"""TensorFlow Serving's APIs under overload and without a model server: the same behavior as /invocations."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.held import Door, export_held_image
from support.patience import poll
from support.stack import Stack, free_port, running
from support.tfs_calls import GRPC_PORT, WAYS

pytestmark = pytest.mark.extended

HTTP_WAYS = ["rows", "image"]


@pytest.fixture(scope="module")
def narrow(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Run a stack that takes one request at a time over HTTP, and one over gRPC."""
    folder = tmp_path_factory.mktemp("narrow")
    export_held_image(folder / "models" / "held", module_door)
    environ = {
        "LIGHTBOX_TFS_API": "true",
        GRPC_PORT: str(free_port()),
        "SAGEMAKER_GUNICORN_WORKERS": "1",
        "SAGEMAKER_GUNICORN_THREADS": "1",
        "LIGHTBOX_MAX_WAITING": "0",
    }
    with running(folder / "models", folder / "run", **environ) as stack:
        yield stack


@pytest.mark.parametrize("way", WAYS)
def test_more_than_can_be_served_gets_retry_after(narrow: Stack, door: Door, way: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(WAYS[way], narrow, 1)
        door.wait_for()
        others = HTTP_WAYS if way in HTTP_WAYS else [way]
        refused = [WAYS[other](narrow, 0) for other in others]
        assert not taken.done()
        assert all(reply.again for reply in refused), refused
        door.open()
        assert taken.result().served, taken.result()
    assert any(WAYS[way](narrow, 0).served for _ in poll())


@pytest.mark.parametrize("way", WAYS)
def test_a_model_server_that_dies_costs_only_what_it_had(narrow: Stack, door: Door, way: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(WAYS[way], narrow, 1)
        door.wait_for()
        narrow.lose("-m lightbox.model_runtime.server")
        assert lost.result().again, lost.result()
    meanwhile = []
    for _ in poll():
        meanwhile.append(WAYS[way](narrow, 0))
        if meanwhile[-1].served:
            break
    assert meanwhile[-1].served, narrow.log
    assert all(reply.again for reply in meanwhile[:-1]), meanwhile
    narrow.wait_for_ping(200)
