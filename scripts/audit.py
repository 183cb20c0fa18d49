"""Checks the locked dependencies for known vulnerabilities: ``python scripts/audit.py``.

The exit code is 1 for a known vulnerability. Without a reachable vulnerability service, it prints a warning and exits
with 0, or with 1 under AUDIT=strict. See docs/adr/034-tests-without-a-network.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightbox.base.telemetry import say

REQUIREMENTS = Path(__file__).parents[1] / "requirements"
SERVICES: tuple[tuple[str, ...], ...] = (("--vulnerability-service=pypi",), ("--vulnerability-service=osv",))
"""Arguments of each service; the first one that knows the packages is used."""
SECONDS = 15
"""How long a service may take for one answer."""
Known = dict[str, list[dict[str, Any]] | None]
"""Findings of pip-audit for each package with its version; None where a service does not even know that it is clean."""


class ServiceSilent(Exception):
    """A service does not answer; the message gives the reason."""


def audit(file: Path, service: Sequence[str]) -> Known:
    """Query one service for all packages of a lock file; raise ServiceSilent."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format=json", *service]
    command += ["--progress-spinner=off", f"--timeout={SECONDS}", f"--requirement={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    try:
        dependencies = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        raise ServiceSilent((done.stderr.strip() or "no answer").splitlines()[-1]) from None
    known = {f"{each['name']} {each.get('version', '')}": each.get("vulns") for each in dependencies}
    if all(found is None for found in known.values()):
        raise ServiceSilent(f"it knows none of the {len(known)} packages of {file.name}")
    return known


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit every lock file and return the exit code."""
    parser = argparse.ArgumentParser(description="Look the locked dependencies up among known vulnerabilities.")
    parser.add_argument("--osv-url", help="ask this one alone")
    parser.add_argument("files", nargs="*", type=Path, default=sorted(REQUIREMENTS.glob("*.lock")))
    chosen = parser.parse_args(arguments)
    services = (("--vulnerability-service=osv", f"--osv-url={chosen.osv_url}"),) if chosen.osv_url else SERVICES
    reasons = []
    for service in services:
        known: Known = {}
        try:
            for file in chosen.files:
                known |= audit(file, service)
        except ServiceSilent as silence:
            reasons.append(str(silence))
        else:
            return _report(known)
    say.warning(
        "THE DEPENDENCIES WERE NOT AUDITED: no service for known vulnerabilities could be asked.",
        *(reason[:300] for reason in reasons),
        "Run 'make lint' where one can be reached, with AUDIT=strict to insist on it.",
    )
    return 1 if os.environ.get("AUDIT") == "strict" else 0


def _report(known: Known) -> int:
    vulnerable = sorted(
        f"{package}: {each['id']}, fixed in {', '.join(each['fix_versions']) or 'no release yet'}"
        for package, found in known.items()
        for each in found or ()
    )
    for line in vulnerable:
        print(f"vulnerable: {line}", file=sys.stderr)
    unknown = sum(found is None for found in known.values())
    said = f", {unknown} unknown to the service" if unknown else ""
    print(f"audit: {len(known) - unknown} locked packages, {len(vulnerable)} known vulnerabilities{said}")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
