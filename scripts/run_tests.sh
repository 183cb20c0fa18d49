#!/usr/bin/env bash
# run_tests.sh test|test-all: runs all stages of make test or make test-all, even after a failure, and lists failures.
set -uo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
red=""

stage() { # NAME WHAT COMMAND...
  local name=$1 what=$2 began=$SECONDS
  shift 2
  echo "== $name: $what"
  if "$@"; then
    echo "== $name: green after $((SECONDS - began)) s"
  else
    red="$red, $name"
  fi
}

# In one run: each process imports TensorFlow and collects tests once, and short tests run while long ones wait.
run() { # MARKS PROCESSES PATH...
  local marks=$1 processes=$2
  shift 2
  "$python" -m pytest -m "$marks" -n "$processes" --dist loadscope --durations="${DURATIONS:-5}" "$@" tests/e2e tests/attacks tests/contract tests/unit
}

# Tests need the sample models, so they are made in parallel with the lint checks.
lint_and_samples() {
  PYTHONPATH=container:scripts:tests "$python" -m support.samples >.venv/samples.log 2>&1 &
  local samples=$! code=0
  make --no-print-directory lint || code=1
  wait "$samples" || { cat .venv/samples.log; code=1; }
  return "$code"
}

case ${1-} in
  test)
    stage lint "ruff, mypy, import-linter, an audit of the dependencies; beside them the sample models are made" lint_and_samples
    stage tests "end to end, against recordings of TensorFlow Serving, and unit tests" run "not extended" 3
    ;;
  test-all)
    stage rest "more of the same; soak, overload, tune, the benchmark, the notebook, the first paths, the image" \
      run extended 4 tests/slow tests/image
    ;;
  *)
    echo "usage: run_tests.sh test|test-all" >&2
    exit 2
    ;;
esac

# Two machines' durations compare by it.
loop="this machine takes $("$python" -c '
from time import process_time
def loop():
    began, number = process_time(), 0
    for step in range(10_000_000):
        number += step
    return process_time() - began
print(f"{min(loop() for _ in range(3)):.2f}")') s for 10 million additions in Python"
if [ -n "$red" ]; then
  echo "== red after $SECONDS s ($loop): ${red#, }. Each line with FAILED or ERROR names a test: run it alone with $python -m pytest NAME (docs/testing.md)"
  exit 1
fi
echo "== green after $SECONDS s; $loop"
