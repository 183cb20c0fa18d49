#!/usr/bin/env bash
# Installs nginx from Debian's package when it is missing, or says in one line what to install.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
if command -v nginx >/dev/null; then exit 0; fi
say() { echo "== $*"; }
if ! command -v apt-get >/dev/null; then
  say "nginx is missing: install it with your system's package manager, then run this again" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    say "nginx is missing and this user may not install it: run 'apt-get install nginx-light' as root, then run this again" >&2
    exit 1
  fi
fi
say "installing nginx (Debian package nginx-light)"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
# No service is started: the package's own nginx would take port 80.
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y --no-install-recommends nginx-light
command -v nginx >/dev/null
