#!/usr/local/bin/python3
"""Replaces the binary of tensorflow/serving where no image registry is reachable.

Runs the embedded model server from the image's sources; TensorFlow's runtime is mounted at TENSORFLOW: stand_ins.py.
"""

import sys

SOURCES, TENSORFLOW = "/opt/lightbox/container", "/opt/tensorflow"

if "--version" in sys.argv:
    print("TensorFlow ModelServer: stand-in\nTensorFlow Library: stand-in")
    sys.exit(0)

sys.path.insert(0, SOURCES)
# Last, so that the image's own packages take precedence.
sys.path.append(TENSORFLOW)
from lightbox.model_server.main import main  # noqa: E402

sys.exit(main())
