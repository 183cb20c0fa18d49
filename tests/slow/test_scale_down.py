"""A pod ends as in its manifest: the hook before SIGTERM, then the drain. No accepted request is lost."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import yaml

from support.fakes import png
from support.held import MANY_HELD, Door, export_held_image
from support.patience import PATIENCE
from support.stack import REPOSITORY, Stack, free_port, running
from support.tfs_calls import GRPC_PORT, WAYS, Reply, pixels

DEPLOY = REPOSITORY / "deploy"
MANIFEST = DEPLOY / "kubernetes" / "lightbox.yaml"
GRACE_SECONDS = 30
"""Kubernetes' default for a pod."""
OURS = (
    "LIGHTBOX_MODEL_DIR",
    "LIGHTBOX_ENGINE",
    GRPC_PORT,
    "LIGHTBOX_DRAIN_SECONDS",
    "LIGHTBOX_REQUEST_TIMEOUT_SECONDS",
)
"""Variables of a manifest that the test sets: paths, ports and what is installed are not those of the image, and a busy
machine may take longer than these seconds."""


def containers(content: Any) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each container with a hook below a manifest node, with its parent."""
    if isinstance(content, dict):
        for container in content.get("containers", []):
            yield content, container
        if "lifecycle" in content.get("model", {}):
            yield content, content["model"]
        content = list(content.values())
    if isinstance(content, list):
        for item in content:
            yield from containers(item)


def hook_and_environ() -> tuple[list[str], dict[str, str]]:
    """Return the manifest's command before SIGTERM, and its variables."""
    ((_, container),) = containers(list(yaml.safe_load_all(MANIFEST.read_text())))
    environ = {entry["name"]: str(entry["value"]) for entry in container.get("env", []) if "value" in entry}
    command = container["lifecycle"]["preStop"]["exec"]["command"]
    return command, environ


def invocation(stack: Stack, red: int) -> Reply:
    answer = stack.invoke(png(pixels(red)))
    return Reply(answer.status_code, answer.headers.get("Retry-After"), answer.text)


def test_what_was_accepted_is_answered(door: Door, tmp_path: Path) -> None:
    hook, environ = hook_and_environ()
    export_held_image(tmp_path / "models" / "held", door)
    own = {name: value for name, value in environ.items() if name not in OURS}
    own |= {"LIGHTBOX_TFS_API": "true", GRPC_PORT: str(free_port()), **MANY_HELD}
    ways = [*WAYS.values(), invocation]
    ended = Event()

    def call_until_forgotten(number: int) -> list[Reply]:
        """Call at least three times while the hook runs and the service's endpoints drop the pod."""
        reply = []
        for turn in itertools.count(number):
            reply.append(ways[turn % len(ways)](stack, 0))
            if ended.wait(0.05) and len(reply) >= 3:
                return reply
        raise AssertionError("unreachable")

    with running(tmp_path / "models", tmp_path / "run", **own) as stack, ThreadPoolExecutor(len(ways)) as pool:
        callers = [pool.submit(call_until_forgotten, number) for number in range(len(ways))]
        began = time.monotonic()
        subprocess.run(hook, check=True, timeout=PATIENCE)
        hooked = time.monotonic() - began
        ended.set()
        reply = [answer for caller in callers for answer in caller.result()]
        assert stack.ping() == 200
        last = [pool.submit(way, stack, 1) for way in ways]
        door.wait_for(len(ways))
        stack.begin_stop()
        assert not any(call.done() for call in last)
        door.open()
        assert stack.wait() == 0, stack.log
        reply += [call.result() for call in last]
        assert [answer for answer in reply if not answer.served] == [], stack.log
        assert hooked >= float(hook[-1])
        assert "SIGKILL" not in stack.log and "killed" not in stack.log, stack.log


def test_every_manifest_ends_in_its_time() -> None:
    found = 0
    # The chart's templates are not YAML until rendered, as in kubernetes/lightbox.yaml; CloudFormation's have tags.
    others = {*DEPLOY.glob("helm/*/templates/*"), *DEPLOY.glob("sagemaker/*")}
    for path in sorted({*DEPLOY.rglob("*.yaml")} - others):
        for pod, container in containers(list(yaml.safe_load_all(path.read_text()))):
            hook = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
            if hook is None:
                continue
            found += 1
            program, seconds = hook
            values = {entry["name"]: entry.get("value") for entry in container.get("env", [])}
            drain = float(values.get("LIGHTBOX_DRAIN_SECONDS") or 30)
            assert program == "sleep"
            assert float(seconds) + drain < pod.get("terminationGracePeriodSeconds", GRACE_SECONDS), path
    assert found >= 2
