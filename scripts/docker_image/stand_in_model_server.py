#!/usr/local/bin/python3
"""Stands in for the binary of tensorflow/serving where no image registry can be reached.

The embedded model server of the image's own sources; TensorFlow's runtime is mounted at TENSORFLOW: stand_ins.py.
"""

import sys

SOURCES, TENSORFLOW = "/opt/lightbox/container", "/opt/tensorflow"

if "--version" in sys.argv:
    print("TensorFlow ModelServer: stand-in\nTensorFlow Library: stand-in")
    sys.exit(0)

sys.path.insert(0, SOURCES)
# Last: what the image itself brings is used first.
sys.path.append(TENSORFLOW)
from lightbox.model_server.main import main  # noqa: E402

sys.exit(main())
