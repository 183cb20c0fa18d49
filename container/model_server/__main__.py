"""``python -m model_server`` is the same as the console script ``tensorflow_model_server``."""

import os
import sys

from model_server.main import main

code = main()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
