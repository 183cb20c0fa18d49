#!/usr/bin/env bash
# lock.sh UV: resolves requirements/*.in into requirements/*.lock, exact versions with hashes.
# dev.lock comes first; the smaller sets are held to its versions.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
uv=$1
compile() {
  local name=$1 overrides=$2
  shift 2
  echo "== requirements/$name.lock"
  "$uv" pip compile --quiet --universal --generate-hashes --no-annotate --python-version 3.11 \
    --overrides "$overrides" --custom-compile-command "make lock" "$name.in" --output-file "$name.lock" "$@"
}
compile dev dev.overrides --upgrade
compile serve model_server.overrides --constraints dev.lock
compile model_server model_server.overrides --constraints dev.lock
compile openvino openvino.overrides --constraints dev.lock
compile sidecar sidecar.overrides --constraints dev.lock
compile handlers sidecar.overrides --constraints dev.lock
compile handlers_aws sidecar.overrides --constraints dev.lock
compile bench sidecar.overrides --constraints dev.lock
compile tracing sidecar.overrides --constraints dev.lock
compile fuzz sidecar.overrides --constraints dev.lock
compile compiler sidecar.overrides --constraints dev.lock
# nncf needs an older numpy than the others, so that this set is held to none of their versions.
compile quantize openvino.overrides
