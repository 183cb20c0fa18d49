#!/usr/local/bin/python3
"""Replaces the binary of tensorflow/serving where no image registry is reachable.

Runs the embedded model server from the image's sources; stand_ins.py mounts TensorFlow's runtime.
"""

import sys

if "--version" in sys.argv:
    print("TensorFlow ModelServer: stand-in\nTensorFlow Library: stand-in")
    sys.exit(0)

sys.path.insert(0, "/opt/lightbox/container")
sys.path.append("/opt/tensorflow")  # last, so that the image's own packages take precedence
from lightbox.model_runtime.server.main import main

sys.exit(main())
