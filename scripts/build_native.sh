#!/usr/bin/env bash
# build_native.sh [OUTPUT [FLAG...]]: compiles native_resize.c; without a C compiler it says so, and Pillow resizes.
set -euo pipefail
cd "$(dirname "$0")/.."
source=container/lightbox/images/native_resize.c
output=${1:-container/lightbox/images/libresize.so.1}
shift || true
if [ "$output" -nt "$source" ] && [ "$output" -nt "$0" ]; then exit 0; fi
if ! scripts/ensure_debian.sh cc gcc libc6-dev; then
  echo "== no C compiler: images are resized by Pillow, which gives the same pixels and takes longer"
  exit 0
fi
# -ffp-contract=off: a multiplication joined with an addition is rounded once instead of twice, and the bits differ.
cc -O3 -ffp-contract=off -Wall -Wextra -Werror -shared -fPIC "$@" -o "$output.$$" "$source" -lm
mv "$output.$$" "$output"
