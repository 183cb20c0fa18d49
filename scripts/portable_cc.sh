#!/usr/bin/env bash
# portable_cc.sh MACHINE ARGUMENT...: a C compiler of the package index. Its x86_64 or aarch64 output runs on any
# baseline processor of that kind, with glibc 2.17 or later. PYTHON can name a Python outside the virtual environment.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
packages=$root/build/compiler
machine=$1
shift
if [ ! -d "$packages" ] || [ "$root/requirements/compiler.lock" -nt "$packages" ]; then
  echo "== taking a C compiler from the package index: 100 MB, once" >&2
  rm -rf "$packages" "$packages.$$"
  "$python" -m pip install --disable-pip-version-check --no-deps --require-hashes -r "$root/requirements/compiler.lock" \
    --target "$packages.$$" >&2
  mv "$packages.$$" "$packages"
fi
PYTHONPATH=$packages ZIG_GLOBAL_CACHE_DIR=$packages/cache exec "$python" -m ziglang cc \
  -target "$machine-linux-gnu.2.17" -mcpu=baseline -fno-sanitize=undefined -s "$@"
