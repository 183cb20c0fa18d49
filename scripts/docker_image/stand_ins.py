"""Stand-ins for the images that the Dockerfile's FROM lines name, for where no image registry can be reached.

They carry the same names in a private engine, so that the Dockerfile is built unchanged. The one for python has
Debian's packages, and this machine's CPython in /usr/local: Debian's own python3 would be none, as pip refuses to
install beside it and packages go elsewhere. Sizes of the base, and the model server's binary, are not those of the
published images.
"""

from __future__ import annotations

import platform
import shutil
import sys
import sysconfig
from pathlib import Path

from docker_image.docker import Docker, attempt, run

DEBIAN_PACKAGES = (
    "ca-certificates,netbase,tzdata,libbz2-1.0,libdb5.3,libexpat1,libffi8,libgdbm6,liblzma5,libncursesw6,libnsl2,"
    "libreadline8,libsqlite3-0,libssl3,libtirpc3,libuuid1,usr-is-merged,zlib1g"
)
"""What CPython's extension modules are linked with."""

PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
LEFT_OUT = ("site-packages", "dist-packages", "test", "idlelib", "turtledemo", "tkinter", "ensurepip", "__pycache__")
UNDOCUMENTED = ("doc", "groff", "info", "linda", "lintian", "locale", "man")
"""Folders of /usr/share that Debian's slim images leave out, but for the copyright files."""

APT_SETTINGS = """\
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";
Acquire::Languages "none";
"""

BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
CERTIFICATES = Path("/usr/local/share/ca-certificates")
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
HOOKS = Path("/usr/share/mmdebstrap/hooks/merged-usr")
MODEL_SERVER = Path(__file__).with_name("stand_in_model_server.py")
RUN_OPTIONS = ("--volume", f"{sysconfig.get_path('purelib')}:/opt/tensorflow:ro")
"""Where the stand-in of tensorflow_model_server looks for TensorFlow's runtime: this environment's packages."""


def tag_of(image: str) -> str:
    """Return an image's name and tag: a stand-in has the name in the FROM line, and a digest of its own."""
    return image.partition("@")[0]


def make_model_server(docker: Docker, folder: Path, tag: str, python: str) -> None:
    """Make the stand-in of tensorflow/serving: an executable at the path of the binary, over a base with a shell."""
    context = folder / "model_server"
    context.mkdir()
    shutil.copy(MODEL_SERVER, context / "tensorflow_model_server")
    (context / "Dockerfile").write_text(f"FROM {python}\nCOPY tensorflow_model_server /usr/bin/\n")
    docker.build(context, tag)


def make_python(docker: Docker, folder: Path, tag: str) -> None:
    """Make the image and import it under a tag; raise ProgramFailed."""
    overlay = folder / "overlay"
    _add_python(overlay / "usr/local")
    _add_settings(overlay)
    archive = folder / "python.tar"
    _bootstrap(overlay, archive)
    settings = (f"ENV PATH={PATH} LANG=C.UTF-8", 'CMD ["python3"]', "LABEL lightbox.stand-in=python")
    docker.run("import", *(word for setting in settings for word in ("--change", setting)), str(archive), tag)
    archive.unlink()
    shutil.rmtree(overlay)


def _add_python(prefix: Path) -> None:
    """Copy this interpreter's installation, its standard library and its pip, without what slim images leave out."""
    version = f"python{sysconfig.get_python_version()}"
    library = prefix / "lib" / version
    stdlib = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(stdlib, library, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT, "config-*", "_tkinter*"))
    for shared in Path(sys.base_prefix, "lib").glob(f"lib{version}.so*"):
        shutil.copy2(shared, prefix / "lib", follow_symlinks=False)
    packages = Path(sysconfig.get_path("purelib"))
    for package in (packages / "pip", *packages.glob("pip-*.dist-info")):
        shutil.copytree(package, library / "site-packages" / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    (library / "EXTERNALLY-MANAGED").unlink(missing_ok=True)
    _undo_debians_folders(library)
    binaries = prefix / "bin"
    binaries.mkdir()
    shutil.copy2(Path(sys.base_prefix, "bin", version), binaries / version)
    for alias in ("python", "python3"):
        (binaries / alias).symlink_to(version)
    pip = binaries / "pip"
    pip.write_text("#!/usr/local/bin/python3\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n")
    pip.chmod(0o755)


def _undo_debians_folders(library: Path) -> None:
    """Let packages lie in site-packages, as upstream's CPython has it, where the copied one is Debian's."""
    schemes = library / "sysconfig.py"
    text = schemes.read_text()
    if "'posix_local'" in text:
        schemes.write_text(text.replace("prefix_scheme = 'posix_local'", "prefix_scheme = 'posix_prefix'"))
        # site.py, which looks there, is frozen into the interpreter.
        (library / "dist-packages").symlink_to("site-packages")


def _add_settings(overlay: Path) -> None:
    """Add apt's and pip's settings: those of the official image, and how this machine reaches its mirrors."""
    files = {
        "etc/apt/apt.conf.d/docker-clean": APT_SETTINGS,
        "etc/dpkg/dpkg.cfg.d/docker-apt-speedup": "force-unsafe-io\n",
        "usr/sbin/policy-rc.d": "#!/bin/sh\nexit 101\n",
        # The engine mounts over these during a build; without them it would change /etc in every layer.
        "etc/hosts": "",
        "etc/hostname": "",
        "etc/resolv.conf": "",
        "usr/local/share/ca-certificates/this-machine.pem": BUNDLE.read_text(),
        "etc/pip.conf": _pip_settings(),
    }
    for name, text in files.items():
        path = overlay / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.startswith("usr/sbin/") else 0o644)
    for certificate in CERTIFICATES.glob("*.crt"):
        shutil.copy(certificate, overlay / "usr/local/share/ca-certificates")


def _pip_settings() -> str:
    lines = ["[global]", "cert = /usr/local/share/ca-certificates/this-machine.pem"]
    for key in ("global.index-url", ":env:.index-url"):
        index = attempt(sys.executable, "-m", "pip", "config", "get", key).stdout.strip()
        if index.startswith("http"):
            lines.append(f"index-url = {index}")
    return "\n".join([*lines, ""])


def _bootstrap(overlay: Path, archive: Path) -> None:
    """Make a root file system of Debian's packages and the overlay."""
    folder, overlay_archive = archive.parent, archive.with_name("overlay.tar")
    run("tar", f"--directory={overlay}", "--owner=0", "--group=0", "--create", f"--file={overlay_archive}", ".")
    options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNDOCUMENTED]
    run(
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        *options,
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        f"--include={DEBIAN_PACKAGES}",
        *([f"--hook-dir={HOOKS}"] if HOOKS.is_dir() else []),
        # Over what Debian's packages bring; a folder that is a link there (/usr/sbin) stays one.
        f'--customize-hook=tar --directory "$1" --keep-directory-symlink --extract --file {overlay_archive}',
        '--customize-hook=chroot "$1" ldconfig',
        '--customize-hook=rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*',
        platform.freedesktop_os_release()["VERSION_CODENAME"],
        str(archive),
        *([str(SOURCES)] if SOURCES.exists() else []),
        environ={"TMPDIR": str(folder)},
    )
    overlay_archive.unlink()
