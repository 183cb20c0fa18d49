#!/usr/bin/env bash
# make_venv.sh PYTHON FOLDER: makes a virtual environment; on Debian installs the package that has what it needs.
set -euo pipefail
python=$1 folder=$2
if ! command -v "$python" >/dev/null; then
  echo "== $python is missing: install Python 3.11, or run with PYTHON=<another>, such as make serve PYTHON=python3.12" >&2
  exit 1
fi
if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  exec "$python" -m venv "$folder"
fi
package=$(basename "$python")-venv
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "== installing $package: Debian's Python comes without what makes virtual environments"
  DEBIAN_FRONTEND=noninteractive apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package"
  exec "$python" -m venv "$folder"
fi
echo "== $package is missing: run 'apt-get install $package' as root, then run this again" >&2
exit 1
