#!/usr/bin/env bash
# build_native.sh [OUTPUT [FLAG...]]: compiles native_resize.c with the machine's C compiler, Debian's gcc, or one from the
# package index; where none of them is to be had it says so, and Pillow resizes.
set -euo pipefail
cd "$(dirname "$0")/.."
source=container/lightbox/images/native_resize.c
output=${1:-container/lightbox/images/libresize.so.1}
shift || true
python=.venv/bin/python
packages=build/compiler

compiler_of_the_index() {
  [ -x "$python" ] || return 1
  if [ ! -d "$packages" ] || [ requirements/compiler.lock -nt "$packages" ]; then
    echo "== taking a C compiler from the package index instead: 100 MB, once"
    rm -rf "$packages" "$packages.$$"
    "$python" -m pip install --disable-pip-version-check --no-deps --require-hashes -r requirements/compiler.lock \
      --target "$packages.$$" || return 1
    mv "$packages.$$" "$packages"
  fi
  # An old glibc and a plain processor: what is compiled here runs wherever this folder is copied to.
  compiler=(env "PYTHONPATH=$packages" "ZIG_GLOBAL_CACHE_DIR=$PWD/$packages/cache" "$python" -m ziglang cc
    -target "$(uname -m)-linux-gnu.2.17" -mcpu=baseline -fno-sanitize=undefined -s)
}

if [ "$output" -nt "$source" ] && [ "$output" -nt "$0" ]; then exit 0; fi
compiler=(cc)
if ! scripts/ensure_debian.sh cc gcc libc6-dev && ! compiler_of_the_index; then
  echo "== no C compiler: images are resized by Pillow, which gives the same pixels and takes longer"
  exit 0
fi
# -ffp-contract=off: a multiplication joined with an addition is rounded once instead of twice, and the bits differ.
"${compiler[@]}" -O3 -ffp-contract=off -Wall -Wextra -Werror -shared -fPIC "$@" -o "$output.$$" "$source" -lm
mv "$output.$$" "$output"
