"""Finds a Docker Engine that can build the image: the user's own, or a private one with stand-ins for the base images.

The user's engine is used unchanged, and only if the base images are present or can be pulled; only the built
image stays in it. Otherwise root on Debian gets a private engine for the run: own socket, own
bridge, own folder, all removed at the end.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil

from docker_image import stand_ins
from docker_image.docker import REPOSITORY, Engine, argument, attempt, run
from lightbox.base.telemetry import say
from lightbox.tools.harness.server_process import ServerFailed, ServerProcess

CLIENT, DAEMON = "/usr/bin/docker", "/usr/sbin/dockerd"
PROGRAMS = {"dockerd": "docker.io", "mmdebstrap": "mmdebstrap", "iptables": "iptables", "ip": "iproute2"}
"""Programs that a private engine needs, and the Debian packages that they are in."""
ROOM_IN_MEMORY = 8 << 30
"""Bytes that building the images takes at most; /dev/shm is used where it has this much."""


class NoEngine(Exception):
    """There is no engine and none can be started; the message names the missing parts."""


@contextmanager
def find_engine() -> Iterator[Engine]:
    """Yield an engine that can build the image; raise NoEngine with a reason."""
    problem = _problem_of(Engine())
    if problem is None:
        yield Engine()
        return
    if missing := _missing_for_a_private_one():
        raise NoEngine(f"{problem}, and a private engine cannot be started here: {missing}")
    say.progress(f"{problem}: starting a private engine with stand-ins for the base images")
    with _private_engine() as (engine, folder):
        python, model_server = (stand_ins.tag_of(argument(name)) for name in ("PYTHON_IMAGE", "TFS_IMAGE"))
        stand_ins.make_python(engine, folder, python)
        stand_ins.make_model_server(engine, folder, model_server, python)
        # The private engine does no address translation: builds use the network of this machine.
        options = ("--network=host", f"--build-arg=PYTHON_IMAGE={python}", f"--build-arg=TFS_IMAGE={model_server}")
        yield replace(engine, build_options=options, run_options=stand_ins.RUN_OPTIONS, real_model_server=False)


def _problem_of(engine: Engine) -> str | None:
    """Return why the user's engine cannot build the image, None when it can."""
    if not engine.can("version", seconds=20):
        return "no Docker engine answers"
    for image in (argument("PYTHON_IMAGE"), argument("TFS_IMAGE")):
        if not (engine.can("image", "inspect", image) or engine.can("pull", "--quiet", image)):
            return f"the Docker engine here has no {image} and cannot pull it"
    return None


def _missing_for_a_private_one() -> str | None:
    """Install Debian packages; return what a private engine still lacks here, None if nothing."""
    if os.geteuid() != 0:
        return "that takes root"
    if not stand_ins.can_stand_in(image := argument("PYTHON_IMAGE")):
        return f"the stand-in for {image} takes the Debian release and the version of Python that its tag names"
    for program, package in PROGRAMS.items():
        done = attempt(str(REPOSITORY / "scripts" / "ensure_debian.sh"), program, package)
        if done.returncode:
            return (done.stdout + done.stderr).strip()
    return None


@contextmanager
def _private_engine() -> Iterator[tuple[Engine, Path]]:
    """Run an engine; yield a client for it and a temporary folder. Raise NoEngine if it does not start."""
    folder = Path(tempfile.mkdtemp(prefix="lightbox-image-", dir=_roomy_folder()))
    folder.chmod(0o711)  # apt's unprivileged helper passes through
    bridge = f"lbx{os.getpid()}"
    engine = Engine((CLIENT, f"--host=unix://{folder}/docker.sock"))
    try:
        _make_bridge(bridge)
        environ = os.environ | {"TMPDIR": str(folder)}
        with ServerProcess(_command(folder, bridge), environ, folder / "log", ends_with_parent=True) as daemon:
            try:
                daemon.wait_until(lambda: engine.can("version", seconds=20))
            except ServerFailed as problem:
                raise NoEngine(f"the private engine did not start: {problem}") from None
            yield engine, folder
    finally:
        attempt("ip", "link", "delete", bridge)
        # Still mounted: the network namespaces of containers that used this machine's network.
        for mount in sorted(one.mountpoint for one in psutil.disk_partitions(all=True)):
            if mount.startswith(f"{folder}/"):
                attempt("umount", "--lazy", mount)
        shutil.rmtree(folder, ignore_errors=True)


def _roomy_folder() -> str | None:
    memory = "/dev/shm"  # noqa: S108 - a new folder is made there
    room = min(shutil.disk_usage(memory).free, psutil.virtual_memory().available)
    return memory if room > ROOM_IN_MEMORY else None


def _make_bridge(name: str) -> None:
    """Make a bridge with a subnet that no other route of this machine uses."""
    routes = run("ip", "-4", "route")
    subnet = next(f"10.213.{part}" for part in range(1, 255) if f"10.213.{part}." not in routes)
    run("ip", "link", "add", name, "type", "bridge")
    run("ip", "address", "add", f"{subnet}.1/24", "dev", name)
    run("ip", "link", "set", name, "up")


def _command(folder: Path, bridge: str) -> list[str]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [
        DAEMON,
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/dockerd.pid",
        f"--host=unix://{folder}/docker.sock",
        f"--bridge={bridge}",
        # The machine's firewall and routing stay as they are; published ports go through docker-proxy.
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
        "--ip-masq=false",
        # The default is higher than some machines allow.
        f"--default-ulimit=nofile={most}:{most}",
    ]
