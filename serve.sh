#!/usr/bin/env -S --block-signal=TERM --block-signal=INT bash
# serve.sh COMMAND: the command line of Lightbox, from any folder, for the image and for a checkout. Needs GNU's env; where
# that is missing, as on macOS, use: make setup, then .venv/bin/lightbox COMMAND
trap 'exit 0' TERM INT  # for "bash serve.sh": else the first line blocks them, so that exec loses none
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
python=$here/.venv/bin/python
if [ ! -x "$python" ]; then
  if [ -d "$here/.venv" ]; then
    echo "serve.sh: $python cannot be run by the user $(id -un): give that user access to it and to all folders above it" >&2
    exit 1
  fi
  python=$(command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
fi
# A user's folder named code, or anything else in the working directory, must not shadow a module.
# The signals stay blocked until Python installs its handlers, so a stop at any moment ends with exit code 0.
PYTHONPATH=$here/container${PYTHONPATH:+:$PYTHONPATH} exec env --block-signal=TERM --block-signal=INT \
  "$python" -P -m lightbox "$@"
