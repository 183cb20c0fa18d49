#!/usr/bin/env bash
# build_native.sh [OUTPUT [FLAG...]]: compiles native_resize.c with the machine's C compiler, Debian's gcc, or one from the
# package index; where none of them is to be had it says so, and Pillow resizes.
set -euo pipefail
cd "$(dirname "$0")/.."
source=container/lightbox/images/native_resize.c
output=${1:-container/lightbox/images/libresize.so.1}
shift || true

if [ "$output" -nt "$source" ] && [ "$output" -nt "$0" ]; then exit 0; fi
compiler=(cc)
if ! scripts/ensure_debian.sh cc gcc libc6-dev; then
  compiler=(scripts/portable_cc.sh "$(uname -m)")
  if ! "${compiler[@]}" --version >/dev/null; then
    echo "== no C compiler: images are resized by Pillow, which gives the same pixels and takes longer"
    exit 0
  fi
fi
# -ffp-contract=off: a multiplication joined with an addition is rounded once instead of twice, and the bits differ.
"${compiler[@]}" -O3 -ffp-contract=off -Wall -Wextra -Werror -shared -fPIC "$@" -o "$output.$$" "$source" -lm
mv "$output.$$" "$output"
