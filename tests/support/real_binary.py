"""A ``tensorflow_model_server`` for PATH: the embedded server with the real binary's weaknesses.

It binds its ports on all interfaces, blocks and exits like the binary, and exits on too low a rank, as on CPUs where
TensorFlow turns oneDNN on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from support.stack import REPOSITORY

PROGRAM = f"""#!{sys.executable}
import sys

sys.path.insert(0, {str(REPOSITORY / "container")!r})
from lightbox.model_runtime.server import main

sys.exit(main.main(["--host=0.0.0.0", "--as_tensorflow_serving", "--rank_guard=false", *sys.argv[1:]]))
"""


def real_binary(folder: Path) -> dict[str, str]:
    """Put the program into a folder; return the environment in which serve.sh takes it for the real one."""
    program = folder / "bin" / "tensorflow_model_server"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return {"LIGHTBOX_MODEL_SERVER": "tensorflow_model_server", "PATH": path, "TF_ENABLE_ONEDNN_OPTS": "1"}
