"""Looks the locked dependencies up among known vulnerabilities: ``python scripts/audit.py [--strict]``.

Exit code 1 for a known vulnerability. Where no service for them can be reached it says so, loudly, and the exit code is
0, with ``--strict`` (or AUDIT=strict) 1: see docs/adr/034-audit-where-there-is-a-network.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements"
SERVICES: tuple[tuple[str, ...], ...] = (("--vulnerability-service=pypi",), ("--vulnerability-service=osv",))
"""Arguments of each service; the first one that knows the packages is used."""
SECONDS = 15
"""How long a service may take for one answer."""
Known = dict[str, list[str] | None]
"""The vulnerabilities of each package with its version; None where a service has nothing, not even that it is clean."""


class ServiceSilent(Exception):
    """A service says nothing at all; the message is why."""


def audit(file: Path, service: Sequence[str]) -> Known:
    """Ask one service about everything in a lock file; raise ServiceSilent."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format=json", *service]
    command += ["--progress-spinner=off", f"--timeout={SECONDS}", f"--requirement={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    try:
        dependencies = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        raise ServiceSilent((done.stderr.strip() or "no answer").splitlines()[-1]) from None
    known = read(dependencies)
    if all(found is None for found in known.values()):
        raise ServiceSilent(f"it knows none of the {len(known)} packages of {file.name}")
    return known


def read(dependencies: Sequence[dict[str, object]]) -> Known:
    """Return what pip-audit found."""
    known: Known = {}
    for dependency in dependencies:
        found = dependency.get("vulns")
        known[f"{dependency['name']} {dependency.get('version', '')}"] = (
            [f"{each['id']}, fixed in {', '.join(each['fix_versions']) or 'no release yet'}" for each in found]
            if isinstance(found, list)
            else None
        )
    return known


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit every lock file and return the exit code."""
    parser = argparse.ArgumentParser(description="Look the locked dependencies up among known vulnerabilities.")
    parser.add_argument("--strict", action="store_true", help="fail if no service is reachable")
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
            return _tell(known)
    rule = "!" * 100
    print(rule, "THE DEPENDENCIES WERE NOT AUDITED: no service for known vulnerabilities is reachable.", sep="\n")
    for reason in reasons:
        print(f"  {reason[:300]}")
    print("Run 'make lint' where one can be reached, with AUDIT=strict to insist on it.", rule, sep="\n", flush=True)
    return 1 if chosen.strict or os.environ.get("AUDIT") == "strict" else 0


def _tell(known: Known) -> int:
    vulnerable = sorted(f"{package}: {found}" for package, all_found in known.items() for found in all_found or ())
    for line in vulnerable:
        print(f"vulnerable: {line}", file=sys.stderr)
    unknown = sum(found is None for found in known.values())
    said = f", {unknown} unknown to the service" if unknown else ""
    print(f"audit: {len(known) - unknown} locked packages, {len(vulnerable)} known vulnerabilities{said}")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    sys.exit(main())
