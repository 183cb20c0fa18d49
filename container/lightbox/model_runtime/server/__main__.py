"""``python -m lightbox.model_runtime.server``: the embedded model server."""

import os
import sys

from lightbox.model_runtime.server.main import main

code = main()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
