"""Counting bytes between processes, and what processes use."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from benchmark.servers import resources
from benchmark.servers.relay import Counter, new_counter, relay


def test_a_relay_counts_what_it_passes_on(tmp_path: Path) -> None:
    new_counter(tmp_path / "count")
    here, there = f"unix:{tmp_path}/here", f"unix:{tmp_path}/there"

    async def answer_twice_as_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.readexactly(5000)
        writer.write(data * 2)
        await writer.drain()
        writer.close()

    async def talk() -> bytes:
        far = await asyncio.start_unix_server(answer_twice_as_much, tmp_path / "there")
        near = await relay(Counter(tmp_path / "count"), here, there)
        async with far, near:
            reader, writer = await asyncio.open_unix_connection(tmp_path / "here")
            writer.write(b"a" * 5000)
            received = await reader.read(-1)
            writer.close()
            return received

    assert asyncio.run(talk()) == b"a" * 10000
    assert Counter(tmp_path / "count").read() == (5000, 10000)


@pytest.mark.parametrize(
    ("command_line", "role"),
    [
        ("nginx: worker process", "nginx"),
        ("/usr/bin/tensorflow_model_server --port=1", "model server"),
        ("python -m lightbox.model_server --port=1", "model server"),
        ("python -m gunicorn lightbox.worker:wsgi_app()", "gunicorn"),
        ("python -P -m lightbox serve", "supervisor"),
        (
            "python -P -m lightbox.features.open_inference.grpc_worker /tmp/plan.json unix:/tmp/health.sock",
            "gRPC front",
        ),
        ("python rivals/fastapi_onnx.py", "server"),
    ],
)
def test_processes_have_roles(command_line: str, role: str) -> None:
    assert resources.role_of(command_line) == role


def test_what_processes_use_is_read() -> None:
    assert sum(resources.cpu_seconds(os.getpid()).values()) > 0
    usage = resources.memory(os.getpid())
    assert sum(usage.pss.values()) > 1_000_000
    assert max(max(sizes) for sizes in usage.rss.values()) > 1_000_000
