"""Stand-ins for the images that the Dockerfile's FROM lines name, for where no image registry can be reached.

They carry the same names in a private engine, so that the Dockerfile is built unchanged. What they are not is said
on each: the sizes of the base, and the model server's binary, are not those of the published images.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

from docker_image.docker import Docker
from docker_image.stand_ins.python_image import make_python

__all__ = ["TENSORFLOW_DIR", "make_model_server", "make_python", "tensorflow_packages"]

TENSORFLOW_DIR = "/opt/tensorflow"
"""Where the stand-in of tensorflow_model_server looks for TensorFlow's runtime."""


def make_model_server(docker: Docker, folder: Path, tag: str, python: str) -> None:
    """Make the stand-in of tensorflow/serving: an executable at the path of the binary, over a base with a shell."""
    context = folder / "model_server"
    context.mkdir()
    shutil.copy(Path(__file__).with_name("tensorflow_model_server"), context)
    (context / "Dockerfile").write_text(f"FROM {python}\nCOPY tensorflow_model_server /usr/bin/\n")
    docker.build(context, tag)


def tensorflow_packages() -> Path:
    """Return the folder of this environment's packages, TensorFlow among them."""
    return Path(sysconfig.get_path("purelib"))
