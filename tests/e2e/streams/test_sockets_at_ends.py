"""Ends of streams when an nginx process dies, or the stack stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from support.held import Door, export_held_image
from support.models import copy_golden
from support.stack import Stack, running
from support.streams import code_of_close, frame, opened, received

pytestmark = pytest.mark.extended


@pytest.fixture(scope="module")
def ending_streams(module_door: Door, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("ending")
    copy_golden("image_mean", folder / "models" / "image_mean")
    export_held_image(folder / "models" / "held_image", module_door)
    environ = {"LIGHTBOX_STREAMS": "true", "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "image_mean"}
    with running(folder / "models", folder / "run", **environ) as stack:
        yield stack


def answers(stack: Stack) -> bool:
    """Return whether a new stream answers a frame."""
    with opened(stack) as stream:
        stream.send(frame(3))
        return bool(received(stream)["answer"] == {"predictions": [[3.0, 20.0, 30.0]]})


def callers_of(worker: psutil.Process) -> set[int]:
    """Return the remote ports of the worker's connections."""
    return {connection.raddr.port for connection in worker.net_connections() if connection.raddr}


def test_the_death_of_nginxs_master_closes_streams_with_1012_and_others_open(ending_streams: Stack, door: Door) -> None:
    with opened(ending_streams, "tfs-model-name=held_image") as busy, opened(ending_streams) as idle:
        for stream in (busy, idle):  # the process that holds them has opened both
            stream.send(frame(0))
            assert received(stream)["status"] == 200
        busy.send(frame(12))
        door.wait_for(1)
        ending_streams.processes("nginx: master")[0].kill()
        door.open()
        assert received(busy)["status"] == 200
        assert [code_of_close(stream) for stream in (busy, idle)] == [1012, 1012]
    assert answers(ending_streams)


def test_the_death_of_a_worker_of_nginx_ends_its_streams_and_closes_the_others_with_1012(ending_streams: Stack) -> None:
    with ExitStack() as all_streams:
        streams = [all_streams.enter_context(opened(ending_streams)) for _ in range(4)]
        for stream in streams:
            stream.send(frame(3))
            assert received(stream)["status"] == 200
        ports = [stream.socket.getsockname()[1] for stream in streams]
        callers = {worker: callers_of(worker) for worker in ending_streams.processes("nginx: worker")}
        killed = min(callers, key=lambda worker: len(callers[worker].intersection(ports)))
        killed.kill()
        expected = [1006 if port in callers[killed] else 1012 for port in ports]
        assert 1012 in expected or len(callers) == 1
        assert [code_of_close(stream) for stream in streams] == expected
    assert answers(ending_streams)


def test_a_stop_answers_what_is_accepted_and_closes_with_1012(ending_streams: Stack, door: Door) -> None:
    with opened(ending_streams, "tfs-model-name=held_image") as busy, opened(ending_streams) as idle:
        idle.send(frame(3))
        assert received(idle)["status"] == 200
        busy.send(frame(12))
        door.wait_for(1)
        logged = len(ending_streams.log)
        ending_streams.begin_stop()
        door.open()
        assert ending_streams.wait() == 0
        assert received(busy)["status"] == 200
        assert [code_of_close(stream) for stream in (busy, idle)] == [1012, 1012]
    assert ending_streams.log[logged:].count("closed with 1012 after") == 2
    assert ending_streams.log[logged:].count("frames=1 errors=0 dropped=0") == 2
