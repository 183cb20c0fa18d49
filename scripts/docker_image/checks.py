"""What the image promises, checked on a hardened container. Each check raises CheckFailed with one sentence."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from docker_image.container import Container, wait_for
from docker_image.digits import ask, digits
from docker_image.docker import Docker
from docker_image.sizes import all_but_the_model_server
from lightbox.features.page import FILES as PAGE_FILES

PUBLIC_PORT = 8080
REST_PORT = 8501
BOTH_WIRES = "--env=LIGHTBOX_TRANSPORT=grpc,rest"
"""What a container is run with that is asked over both wires."""
LARGEST = 350_000_000
"""Bytes that everything but the model server's binary may take."""
PAGE_IN_IMAGE = "/opt/lightbox/container/lightbox/features/page/files"
RESIZE_IN_IMAGE = "/opt/lightbox/container/lightbox/images/libresize.so.1"
HEALTH_SECONDS = 300.0
_LISTEN = "0A"


class CheckFailed(Exception):
    """The image does not do what it promises."""


@dataclass(frozen=True)
class Subject:
    """An image, and a hardened container of it that serves the sample models."""

    docker: Docker
    image: str
    container: Container
    real_model_server: bool


Check = Callable[[Subject], str]
"""Checks one promise and returns what was seen."""


def runs_without_privilege(subject: Subject) -> str:
    """The user is numeric and not root, no capability is left, and no program would raise either."""
    user = subject.docker.inspect("{{.Config.User}}", subject.image)
    expect(re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), f"USER is {user!r}, not two numbers above 0")
    status = subject.container.execute("cat", "/proc/1/status")
    expect(re.search(r"^CapEff:\s+0+$", status, re.MULTILINE), "the first process has capabilities")
    everything = ("run", "--rm", "--user=0", "--entrypoint=find", subject.image, "/", "-xdev", "-type", "f")
    raising = subject.docker.run(*everything, "-perm", "/6000")
    expect(not raising, f"programs that change the user: {raising}")
    return f"user {user}"


def first_process_is_tini(subject: Subject) -> str:
    """Orphans are reaped and signals passed on by tini."""
    name = subject.container.execute("cat", "/proc/1/comm")
    expect(name == "tini", f"process 1 is {name}")
    return name


def is_labelled(subject: Subject) -> str:
    """The OCI labels and those that SageMaker asks for are there."""
    labels = subject.docker.inspect("{{range $k, $v := .Config.Labels}}{{$k}} {{end}}", subject.image).split()
    wanted = [
        f"org.opencontainers.image.{name}"
        for name in ("title", "description", "licenses", "version", "revision", "base.name")
    ]
    wanted += [f"com.amazonaws.sagemaker.capabilities.{name}" for name in ("accept-bind-to-port", "multi-models")]
    missing = set(wanted) - set(labels)
    expect(not missing, f"labels are missing: {missing}")
    return f"{len(wanted)} labels"


def answers_ping(subject: Subject) -> str:
    """/ping is 200."""
    expect(subject.container.ping() == 200, "/ping does not answer 200")
    return "200"


def reads_digits_over_both_wires(subject: Subject) -> str:
    """Handwritten digits get their labels over gRPC and over REST, and the two answers agree."""
    images, labels = digits()
    answers = {wire: [ask(subject.container, wire, image) for image in images] for wire in ("grpc", "rest")}
    for wire, probabilities in answers.items():
        found = np.argmax(probabilities, axis=-1)
        expect((found == labels).all(), f"over {wire} the digits {labels} are read as {found}")
    agree = np.allclose(answers["grpc"], answers["rest"], rtol=1e-4, atol=1e-6)
    expect(agree, "the answers over gRPC and REST differ")
    return f"{len(labels)} images each"


def has_the_page(subject: Subject) -> str:
    """The files of the page to try models are there, and the container's user may read them."""
    found = subject.container.execute("find", PAGE_IN_IMAGE, "-type", "f", "-readable", "-printf", "%P ").split()
    wanted = [str(path.relative_to(PAGE_FILES)) for path in PAGE_FILES.rglob("*") if path.is_file()]
    expect(sorted(found) == sorted(wanted), f"files of the page: expected {sorted(wanted)}, got {sorted(found)}")
    return f"{len(found)} files"


def has_the_resize(subject: Subject) -> str:
    """The resize in C is there, and the machine's C library can load it."""
    program = f"import ctypes; print(ctypes.CDLL({RESIZE_IN_IMAGE!r}).lightbox_instructions())"
    found = subject.container.execute("python", "-c", program).strip()
    expect(found in ("0", "1", "2", "3"), f"lightbox_instructions: expected 0 to 3, got {found}")
    return f"instructions: {found}"


def is_healthy(subject: Subject) -> str:
    """Docker's own HEALTHCHECK passes."""

    def state() -> str:
        return subject.container.inspect("{{.State.Health.Status}}")

    wait_for(lambda: state() != "starting", HEALTH_SECONDS)
    expect(state() == "healthy", f"HEALTHCHECK says {state()}")
    return state()


def listens_as_documented(subject: Subject) -> str:
    """With both wires 8080 is open, and the port of the model server's REST, which the real binary binds everywhere."""
    found = listening(subject.container)
    ports = {port for _, port in found}
    expect(ports == {PUBLIC_PORT, REST_PORT}, f"open ports: {ports}")
    outward = {port for loopback, port in found if not loopback}
    allowed = {PUBLIC_PORT} | ({REST_PORT} if subject.real_model_server else set())
    expect(outward <= allowed, f"open to other machines: {outward}")
    return f"{sorted(outward)} open, {sorted(ports - outward)} on loopback"


def brings_no_tensorflow(subject: Subject) -> str:
    """The default image has TensorFlow's messages, not TensorFlow."""
    found = subject.container.execute("find", "/usr/local/lib", "-name", "libtensorflow*")
    expect(not found, f"TensorFlow is in the image: {found}")
    return "none"


def is_small(subject: Subject) -> str:
    """Everything but the model server's binary stays under the limit."""
    size = all_but_the_model_server(subject.docker, subject.image)
    expect(size < LARGEST, f"{size / 1e6:.0f} MB without the model server, more than {LARGEST / 1e6:.0f}")
    return f"{size / 1e6:.0f} MB without the model server"


def stops_when_asked(subject: Subject) -> str:
    """SIGTERM ends the container with exit code 0. Nothing can be checked on it afterwards."""
    return stops_cleanly(subject.container)


COMMON: tuple[Check, ...] = (
    runs_without_privilege,
    first_process_is_tini,
    is_labelled,
    answers_ping,
    has_the_page,
    has_the_resize,
    reads_digits_over_both_wires,
    is_healthy,
    listens_as_documented,
)
CHECKS: dict[str, tuple[Check, ...]] = {
    "lightbox": (*COMMON, brings_no_tensorflow, is_small, stops_when_asked),
    "embedded": (*COMMON, stops_when_asked),
    "openvino": (*COMMON, brings_no_tensorflow, stops_when_asked),
}
"""By the Dockerfile's stage, in the order in which they are made: the last one stops the container."""


def stops_cleanly(container: Container) -> str:
    """Raise CheckFailed if SIGTERM does not end a container, long before the end of its drain and with exit code 0."""
    started = time.monotonic()
    code = container.stop()
    seconds = time.monotonic() - started
    expect(code == 0, f"exit code {code} after SIGTERM:\n{container.log}")
    return f"exit code 0 after {seconds:.1f} s"


def writes_nothing(container: Container) -> None:
    """Raise CheckFailed if a container that may write everywhere has written outside /tmp."""
    container.ping()
    images, _ = digits()
    ask(container, "grpc", images[0])
    mounts = ["/tmp", *container.inspect("{{range .Mounts}}{{.Destination}} {{end}}").split()]  # noqa: S108
    written = [path for path in container.changed_files() if not any(f"{m}/".startswith(f"{path}/") for m in mounts)]
    expect(not written, f"written outside the writable folder: {written}")
    shared = container.execute("ls", "-A", "/dev/shm")  # noqa: S108
    expect(not shared, f"written to /dev/shm: {shared}")


def expect(truth: object, otherwise: str) -> None:
    """Raise CheckFailed with a sentence unless something is true."""
    if not truth:
        raise CheckFailed(otherwise)


def listening(container: Container) -> set[tuple[bool, int]]:
    """Return (is it on loopback, port) of each TCP socket that listens, from the kernel's tables."""
    found = set()
    for line in container.execute("cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3] == _LISTEN:
            address, _, port = fields[1].rpartition(":")
            found.add((_is_loopback(address), int(port, 16)))
    return found


def _is_loopback(address: str) -> bool:
    """Read the kernel's hexadecimal: 127.x.y.z in little-endian words, also as IPv6 has it, or ::1."""
    if len(address) > 8 and not address.startswith("0" * 16 + "FFFF0000"):
        return address == "0" * 24 + "01000000"
    return address.endswith("7F")
