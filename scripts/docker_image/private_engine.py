"""A Docker Engine for the length of one run: own socket, own bridge, own folder, nothing left behind."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker_image.docker import Docker
from docker_image.programs import ProgramFailed, attempt, run
from lightbox.processes.child import die_with_parent

CLIENT, DAEMON = "/usr/bin/docker", "/usr/sbin/dockerd"
PACKAGES = {DAEMON: "docker.io", "mmdebstrap": "mmdebstrap", "iptables": "iptables", "ip": "iproute2"}
START_SECONDS, STOP_SECONDS = 300.0, 60.0
ROOM_IN_MEMORY = 8 << 30
"""Bytes that building both images takes at most; where /dev/shm has them, the disk is spared."""


def what_is_missing() -> str | None:
    """Return why no private engine can be had here, None when one can; installs Debian's packages if need be."""
    if os.geteuid() != 0:
        return "that takes root"
    if shutil.which("apt-get") is None or not Path("/etc/debian_version").exists():
        return "that takes Debian's packages"
    wanted = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if not wanted:
        return None
    # No service is started: the package's own engine would change the machine's network rules.
    environ = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (
        ["apt-get", "update", "-qq"],
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted],
    ):
        done = attempt(*command, environ=environ)
        if done.code:
            return f"{' '.join(command)} failed: {' '.join(done.errors.splitlines()[-1:])}"
    return None


@contextmanager
def running() -> Iterator[tuple[Docker, Path]]:
    """Run an engine; give a client for it and a folder that goes with it. Raise ProgramFailed if it does not start."""
    folder = Path(tempfile.mkdtemp(prefix="lightbox-image-", dir=_roomy_folder()))
    folder.chmod(0o711)  # apt's unprivileged helper passes through
    bridge = f"lbx{os.getpid()}"
    docker = Docker(CLIENT, f"unix://{folder}/docker.sock")
    try:
        _make_bridge(bridge)
        with (folder / "dockerd.log").open("wb") as log:
            daemon = subprocess.Popen(  # noqa: S603 - our own command
                _command(folder, bridge),
                env=os.environ | {"TMPDIR": str(folder)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no lock
            )
        try:
            _wait_until_it_answers(docker, daemon, folder / "dockerd.log")
            yield docker, folder
        finally:
            _stop(docker, daemon)
    finally:
        attempt("ip", "link", "delete", bridge)
        _unmount_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _unmount_below(folder: Path) -> None:
    """Release what the engine leaves mounted: the network namespace of containers that used this machine's network."""
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for point in sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True):
        attempt("umount", "--lazy", point)


def _roomy_folder() -> str | None:
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
    lines = Path("/proc/meminfo").read_text().splitlines()
    available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    if memory.is_dir() and min(shutil.disk_usage(memory).free, available) > ROOM_IN_MEMORY:
        return str(memory)
    return None


def _make_bridge(name: str) -> None:
    """Make a bridge with a subnet that no other route of this machine has."""
    routes = run("ip", "-4", "route")
    subnet = next(f"10.213.{part}" for part in range(1, 255) if f"10.213.{part}." not in routes)
    for arguments in (
        ["link", "add", name, "type", "bridge"],
        ["address", "add", f"{subnet}.1/24", "dev", name],
        ["link", "set", name, "up"],
    ):
        run("ip", *arguments)


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
        # Its default is higher than some machines let a process have.
        f"--default-ulimit=nofile={most}:{most}",
    ]


def _wait_until_it_answers(docker: Docker, daemon: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and daemon.poll() is None:
        try:
            docker.run("version", seconds=10)
        except ProgramFailed:
            time.sleep(0.1)
        else:
            return
    last = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
    raise ProgramFailed(f"the private engine did not start:\n{last}")


def _stop(docker: Docker, daemon: subprocess.Popen[bytes]) -> None:
    if daemon.poll() is None:
        containers = docker.run("ps", "--all", "--quiet").split()
        if containers:
            docker.run("rm", "--force", *containers)
        daemon.terminate()
    try:
        daemon.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
