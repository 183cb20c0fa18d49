#!/usr/bin/env bash
# ensure_debian.sh COMMAND PACKAGE...: installs Debian packages if a command is missing, or prints the fix in one line.
# COMMAND can also be a shared library, such as libb64.so.0d.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
command=$1
shift
there() {
  case $command in
    *.so.*) ldconfig -p | grep -F "$command" >/dev/null ;;
    *) command -v "$command" >/dev/null ;;
  esac
}
if there; then exit 0; fi
say() { echo "== $*"; }
if ! command -v apt-get >/dev/null; then
  say "$command is missing: install it with your system's package manager, then run this again" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    say "$command is missing and this user may not install it: run 'apt-get install $*' as root, then run this again" >&2
    exit 1
  fi
fi
say "installing $command (Debian packages: $*)"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
# No service is started: a package's own server would take its usual port.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends "$@" && there || {
    say "$command could not be installed as $*: install it by hand, then run this again (Ubuntu has Chromium as a snap alone)" >&2
    exit 1
  }
