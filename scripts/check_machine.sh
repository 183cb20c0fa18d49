#!/usr/bin/env bash
# check_machine.sh PYTHON "COMMAND PACKAGE..." ...: lists missing parts that this user cannot install, one per line.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
python=$1
shift
missing=0
say() { echo "== $*" >&2; missing=1; }

can_install=no
if command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || { command -v sudo && sudo -n true; } >/dev/null 2>&1; }; then
  can_install=yes
fi

choice="install Python 3.11, 3.12 or 3.13, or name one: make … PYTHON=python3.12"
if ! command -v "$python" >/dev/null; then
  say "$python is missing: $choice"
elif ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
  say "$python is $("$python" -V 2>&1 | head -n 1): $choice"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null && { [ "$(id -u)" -ne 0 ] || [ "$can_install" = no ]; }; then
  say "$python cannot make virtual environments: run 'apt-get install $(basename "$python")-venv' as root"
fi
for wanted in "$@"; do
  read -r command packages <<<"$wanted"
  if command -v "$command" >/dev/null || [ "$can_install" = yes ]; then continue; fi
  if command -v apt-get >/dev/null; then
    say "$command is missing: run 'apt-get install $packages' as root"
  else
    say "$command is missing: install it with your system's package manager"
  fi
done
[ "$missing" = 0 ] || { echo "== nothing was downloaded or changed; run this again when that is there" >&2; exit 1; }
