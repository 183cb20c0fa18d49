#!/usr/bin/env bash
# serve.sh serve|check: Lightbox in the foreground, from any folder, with settings from the environment.
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
python=$here/.venv/bin/python
[ -x "$python" ] || python=$(command -v python3.11 || command -v python3)
# A user's folder named code, or anything else in the working directory, must not shadow a module.
PYTHONPATH=$here/container${PYTHONPATH:+:$PYTHONPATH} exec "$python" -P -m lightbox "$@"
