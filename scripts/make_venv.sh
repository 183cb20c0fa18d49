#!/usr/bin/env bash
# make_venv.sh PYTHON FOLDER: makes a virtual environment, and replaces one of another Python; on Debian it installs the
# required package.
set -euo pipefail
python=$1 folder=$2
"$(dirname "$0")/check_machine.sh" "$python"
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  package=$(basename "$python")-venv
  echo "== installing $package: Debian's Python comes without what makes virtual environments"
  DEBIAN_FRONTEND=noninteractive apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package"
fi
again=()
if [ "$("$folder/bin/python" -V 2>&1)" != "$("$python" -V 2>&1)" ]; then
  again=(--clear)  # else its "python" stays the other one, and so do its packages
fi
exec "$python" -m venv "${again[@]}" "$folder"
