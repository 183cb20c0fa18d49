#!/usr/bin/env bash
# build_native.sh [OUTPUT [FLAG...]]: compiles container/lightbox/model_runtime/native with the machine's C compiler, Debian's gcc, or one
# from the package index. Without a compiler it prints a message, and Lightbox uses Pillow and Python instead.
set -euo pipefail
cd "$(dirname "$0")/.."
sources=(container/lightbox/model_runtime/native/*.c)
output=${1:-container/lightbox/model_runtime/native/liblightbox.so.1}
shift || true

is_new=true
for needed in "${sources[@]}" "$0"; do [ "$output" -nt "$needed" ] || is_new=false; done
if $is_new; then exit 0; fi
compiler=(cc)
if ! scripts/ensure_debian.sh cc gcc libc6-dev; then
  compiler=(scripts/portable_cc.sh "$(uname -m)")
  if ! "${compiler[@]}" --version >/dev/null; then
    echo "== no C compiler: Pillow resizes and Python reads JSON, with the same results, and takes longer"
    exit 0
  fi
fi
# -ffp-contract=off: a multiplication joined with an addition is rounded once instead of twice, and the bits differ.
"${compiler[@]}" -O3 -ffp-contract=off -Wall -Wextra -Werror -shared -fPIC "$@" -o "$output.$$" "${sources[@]}" -lm
mv "$output.$$" "$output"
