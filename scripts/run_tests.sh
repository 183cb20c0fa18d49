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

# In one run: each process imports TensorFlow and collects tests once, and short tests run while long ones wait. Two cores
# are busy with three; more only make each test longer, and keep more idle stacks. A process that ends in a test ends the
# run, which names that test: xdist 3.8 would wait for ever for tests that it gives out again.
run() { # MARKS PATH...
  local marks=$1
  shift
  "$python" -m pytest -m "$marks" -n 3 --max-worker-restart 0 --dist loadscope --durations="${DURATIONS:-5}" "$@" tests/e2e tests/attacks tests/contract tests/unit
}

# Tests need the sample models; lint goes on beside the tests, and says at once what it found.
beside() { # COMMAND...
  local said code=0
  said=$("$@" 2>&1; [ -z "$red" ]) || code=1
  echo "$said"
  return "$code"
}

samples() { PYTHONPATH=container:scripts:tests "$python" -m support.samples; }

case ${1-} in
  test)
    beside stage lint "ruff, mypy, import-linter, an audit of the dependencies" make --no-print-directory lint &
    lint=$!
    stage samples "the models that the tests share" samples
    stage tests "end to end, against recordings of TensorFlow Serving, and unit tests" run "not extended"
    wait "$lint" || red="$red, lint"
    ;;
  test-all)
    stage rest "more of the same; faults, overload, tune, the benchmark, the notebook, the first paths, the image" \
      run extended tests/slow tests/image
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
