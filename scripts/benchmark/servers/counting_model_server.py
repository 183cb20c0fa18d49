"""Stands where ``tensorflow_model_server`` stands: starts the true one elsewhere and counts what passes.

counting_model_server.py FOLDER_OF_COUNTERS --port=… [--rest_api_port=…] [--grpc_socket_path=…] …
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(REPOSITORY / "scripts"), str(REPOSITORY / "container")]

from benchmark.servers.hops import HOPS, counter_path  # noqa: E402 - the path comes first
from benchmark.servers.relay import Counter, relay  # noqa: E402
from benchmark.servers.stack import real_binary  # noqa: E402
from lightbox.harness.ports import free_ports  # noqa: E402

ADDRESSES = ("--port", "--rest_api_port", "--grpc_socket_path")


async def main(tmp: Path, flags: list[str]) -> int:
    """Run the true server with other addresses until it ends or a signal comes; return its exit code."""
    asked = {name: value for name, _, value in (flag.partition("=") for flag in flags) if name in ADDRESSES}
    others = [flag for flag in flags if flag.partition("=")[0] not in ADDRESSES]
    low = free_ports(2)
    moved = [f"--port={low}", f"--rest_api_port={low + 1}", *others]
    process = await asyncio.create_subprocess_exec(*_program(tmp), *moved)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, process.terminate)
    grpc, rest = (Counter(counter_path(tmp, hop)) for hop in HOPS[1:])
    async with AsyncExitStack() as stack:
        for flag, address in asked.items():
            counter, behind = (rest, low + 1) if flag == "--rest_api_port" else (grpc, low)
            listen = f"unix:{address}" if flag == "--grpc_socket_path" else f"127.0.0.1:{address}"
            if address != "0":
                await stack.enter_async_context(await relay(counter, listen, f"127.0.0.1:{behind}"))
        return await process.wait()


def _program(tmp: Path) -> list[str]:
    binary = real_binary()
    if binary and not binary.is_relative_to(tmp):
        return [str(binary)]
    return [sys.executable, "-m", "lightbox.model_server"]


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2:])))
