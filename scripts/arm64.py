"""Tries Lightbox on arm64, which QEMU emulates: ``make arm64``. It takes root on Debian, and an hour.

In a Debian of that architecture, below build/arm64, pip installs the wheel, a stack of each engine answers a photo as
one on this machine, and ``make test``'s tests of images, codecs, formats and engines run. Meanwhile this machine
executes programs of arm64; mounts and processes end with it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from docker_image.docker import ProgramFailed
from install import configured, uv_options
from lightbox.base.telemetry import say
from lightbox.supervisor.starting.commands import PYTHON
from lightbox.tools.harness.http_client import Client
from lightbox.tools.harness.server_process import ServerFailed
from lightbox.tools.harness.stack import Stack, clean_environ
from release import Release, make_packages

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / "build" / "arm64"
ROOT = FOLDER / "root"
DEBIAN, PACKAGES = "bookworm", "nginx-light,python3-venv"
PLATFORM, VERSION = "aarch64-manylinux_2_36", "3.11"
"""Those of Debian's release, for uv."""
PROCESSOR = "neoverse-n1"
"""Graviton2's, for QEMU."""
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
CORE = """\
processor\t: {}
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""
"""Of its /proc/cpuinfo: QEMU 7.2 shows this machine's, on which ONNX Runtime ends by signal 11."""
ENTRY, EMULATOR = "lightbox-arm64", "/usr/bin/qemu-aarch64-static"
REGISTERED = (
    rf":{ENTRY}:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
    rf":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:{EMULATOR}:F"
)
"""Linux's binfmt_misc: by their first bytes, programs of arm64 run in the emulator, which a chroot need not contain."""
BINFMT = Path("/proc/sys/fs/binfmt_misc")
INSTALLED, TESTED, MODELS = "opt/lightbox", "opt/tests", "opt/models"
"""The wheel's environment, the tests', and the models; below ROOT."""
MODEL = "efficientnet_lite0"
PHOTO = REPOSITORY / "container" / "lightbox" / "features" / "page" / "files" / "samples" / "coffee.jpg"
ENGINES = ("openvino", "onnxruntime")
CLASSES = 1000
MOST_APART = 1e-5
SECONDS = 3600.0
"""For one start or response: the emulator's speed says nothing of the machine's."""
UNIT = "tests/unit/lightbox"
TESTS = ("images", "codecs", *(f"model_runtime/{name}" for name in ("engines", "formats", "native", "wire")))
PYTEST = ("-m", "pytest", "-q", "-n", "auto", "--dist", "loadscope", "-m", "not extended")
"""Without those that are marked extended, for their time in the emulator: one of the codecs' takes 215 seconds."""
LIBRARY = "lightbox/model_runtime/native/liblightbox.so.1"


def main(arguments: Sequence[str]) -> int:
    """Prepare what needs no emulation, then try it in namespaces of its own; return the exit code."""
    try:
        if not arguments:
            prepare()
            return _run(*NAMESPACES, *sys.orig_argv, "inside", check=False)
        with emulation():
            install()
            apart = {engine: compare(engine) for engine in ENGINES}
            tests = _emulated(f"/{TESTED}/bin/python", *PYTEST, *(f"{UNIT}/{name}" for name in TESTS))
            code = _run(*tests, environ=_environ(), check=False)
            return code or max(apart.values()) > MOST_APART
    except (ProgramFailed, ServerFailed, OSError, subprocess.CalledProcessError) as problem:
        print(f"arm64.py: {problem}", file=sys.stderr)
        return 1


def prepare() -> None:
    """Download a Debian, make the wheels of the last commit, copy the repository's files for the tests."""
    ensure = str(REPOSITORY / "scripts" / "ensure_debian.sh")
    _run(ensure, "debootstrap", "debootstrap")
    _run(ensure, Path(EMULATOR).name, "qemu-user-static")
    if not (ROOT / "etc").exists():
        say.progress(f"downloading Debian's {DEBIAN} for arm64")
        _run("debootstrap", "--arch=arm64", "--foreign", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, ROOT)
    packages, clone = ROOT / "packages", ROOT / "lightbox"
    for folder in (packages, clone):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    make_packages(Release(REPOSITORY, packages, is_candidate=True))
    _run("bash", "-ec", f"git ls-files -z | xargs -0 cp --parents -t {clone}")
    (wheel,) = packages.glob("*aarch64.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(LIBRARY, clone / "container")
    if (models := REPOSITORY / "build" / "test_models").exists():
        shutil.copytree(models, clone / "build" / "test_models", symlinks=True)


@contextmanager
def emulation() -> Iterator[None]:
    """Let this machine run programs of arm64, and mount what they need below ROOT."""
    _run("mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT)
    entry = BINFMT / ENTRY
    if not entry.exists():
        (BINFMT / "register").write_text(REGISTERED)
    try:
        if (ROOT / "debootstrap").exists():
            say.progress("configuring Debian")
            (ROOT / "usr" / "sbin" / "policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # it starts no service
            (ROOT / "usr" / "sbin" / "policy-rc.d").chmod(0o755)
            _run(*_emulated("/debootstrap/debootstrap", "--second-stage"))
        for kind, name in (("proc", "proc"), ("sysfs", "sys"), ("tmpfs", "tmp")):
            _run("mount", "-t", kind, kind, ROOT / name)
        _run("mount", "--rbind", "/dev", ROOT / "dev")
        (FOLDER / "cpuinfo").write_text("".join(map(CORE.format, range(os.cpu_count() or 1))))
        _run("mount", "--bind", FOLDER / "cpuinfo", ROOT / "proc" / "cpuinfo")
        yield
    finally:
        entry.write_text("-1")


def install() -> None:
    """Install the wheel with pip, as a user does, and the packages of the tests with this machine's uv."""
    for file in ("etc/resolv.conf", "etc/ssl/certs/ca-certificates.crt"):
        (ROOT / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"/{file}", ROOT / file)
    say.progress("installing the wheel")
    shutil.rmtree(ROOT / INSTALLED, ignore_errors=True)
    _run(*_emulated("python3", "-m", "venv", f"/{INSTALLED}"))
    wanted = f"lightbox-serve[{','.join(ENGINES)},samples]"
    _run(*_emulated(f"/{INSTALLED}/bin/pip", "install", "--quiet", "--no-compile", "--find-links=/packages", wanted))
    shutil.rmtree(ROOT / MODELS, ignore_errors=True)
    _run(*_emulated(f"/{INSTALLED}/bin/lightbox", "export", MODEL, f"/{MODELS}/{MODEL}"))
    say.progress("installing the packages of the tests")
    _run(*_emulated("python3", "-m", "venv", "--without-pip", f"/{TESTED}"))
    options = configured()
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", *uv_options(options))
    place = (f"--python-platform={PLATFORM}", f"--python-version={VERSION}", "--only-binary=:all:")
    site = ROOT / TESTED / "lib" / f"python{VERSION}" / "site-packages"
    (site / "lightbox.pth").write_text("/lightbox/container\n")  # for the processes that tests start
    locked = ("--no-deps", "--require-hashes", f"--requirement={REPOSITORY}/requirements/dev.lock")
    certificate = {"SSL_CERT_FILE": options["cert"]} if "cert" in options else {}
    _run(*uv, *place, f"--target={site}", *locked, environ=os.environ | certificate)


def compare(engine: str) -> float:
    """Return how far the scores of a photo are apart: of a stack there, and of one on this machine."""
    there = scores(engine, Path("/"), _emulated(f"/{INSTALLED}/bin/lightbox"))
    here = scores(engine, ROOT, [*PYTHON, "lightbox"])
    if not len(there) == len(here) == CLASSES:
        raise ProgramFailed(f"{engine}: expected {CLASSES} classes, got {len(there)} and {len(here)}")
    apart = max(abs(there[name] - here[name]) for name in here)
    say.progress(f"{engine}: {CLASSES} scores of a photo, at most {apart:.2g} apart from this machine's")
    return apart


def scores(engine: str, root: Path, command: Sequence[str | Path]) -> dict[int, float]:
    """Return the score of each class that a stack answers for the photo."""
    say.progress(f"{engine}: starting {' '.join(map(str, command))} serve")
    settings = {
        "LIGHTBOX_MODEL_DIR": str(root / MODELS),
        "LIGHTBOX_MODEL_SERVER": "embedded",
        "LIGHTBOX_ENGINE": engine,
        "LIGHTBOX_OPTIONS": json.dumps({"top_k": CLASSES}),
        "LIGHTBOX_REQUEST_TIMEOUT_SECONDS": f"{SECONDS:.0f}",
        "SAGEMAKER_TFS_WAIT_TIME_SECONDS": f"{SECONDS:.0f}",
    }
    with Stack(settings, _environ(), command=command) as stack:
        stack.until_ready(SECONDS, pause=1)
        with Client(stack.port, SECONDS) as client:
            answer = client.send("POST", "/invocations", PHOTO.read_bytes(), {"Content-Type": "image/jpeg"})
    if answer.status != 200:
        raise ProgramFailed(f"{engine}: expected 200, got {answer.status}: {answer.body[:1000]!r}")
    (row,) = json.loads(answer.body)["predictions"]
    return {one["class"]: one["score"] for one in row}


def _emulated(*command: str) -> list[str | Path]:
    """Return a command that runs in ROOT, in the folder of the tests once it is there."""
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    variables = ("HOME=/root", "TMPDIR=/tmp", path, f"QEMU_CPU={PROCESSOR}")
    return ["chroot", ROOT, "env", "--chdir=/lightbox", *variables, *command]


def _environ() -> dict[str, str]:
    return {name: value for name, value in clean_environ().items() if not name.startswith("PYTHON")}


def _run(*command: str | Path, environ: Mapping[str, str] | None = None, check: bool = True) -> int:
    return subprocess.run(command, cwd=REPOSITORY, env=environ, check=check).returncode  # noqa: S603 - our own commands


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
