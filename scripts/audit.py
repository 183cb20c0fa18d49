"""Looks the locked dependencies up among known vulnerabilities: ``python scripts/audit.py [--strict]``.

Exit code 1 for a known vulnerability. Where no service for them can be reached it says so, loudly, and the exit code is
0, with ``--strict`` (or AUDIT=strict) 1: see docs/adr/034-audit-where-there-is-a-network.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements"
SERVICES: tuple[tuple[str, ...], ...] = (("--vulnerability-service=pypi",), ("--vulnerability-service=osv",))
"""Arguments for each service that is asked, until one knows the packages."""
SECONDS = 15
"""How long a service may take for one answer."""


@dataclass
class Findings:
    """What one service said. ``unknown`` are packages that it has nothing about, not even that they are clean."""

    audited: int = 0
    unknown: int = 0
    vulnerable: list[str] = field(default_factory=list)
    silent: str = ""
    """Why the service said nothing at all."""


def audit(files: Sequence[Path], service: Sequence[str]) -> Findings:
    """Ask one service about everything in the lock files."""
    named = [part for file in files for part in ("--requirement", str(file))]
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format=json", *service]
    command += ["--progress-spinner=off", f"--timeout={SECONDS}", *named]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    try:
        dependencies = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return Findings(silent=(done.stderr.strip() or "no answer").splitlines()[-1])
    return _read(dependencies)


def groups(files: Sequence[Path]) -> list[list[Path]]:
    """Sort lock files so that those of a group agree on all versions: pip-audit refuses two versions of a package."""
    found: list[tuple[dict[str, str], list[Path]]] = []
    for file in files:
        locked = dict(re.findall(r"^([\w.-]+)==(\S+)", file.read_text(), re.MULTILINE))
        for versions, group in found:
            if all(versions.get(name, version) == version for name, version in locked.items()):
                versions.update(locked)
                group.append(file)
                break
        else:
            found.append((locked, [file]))
    return [group for _, group in found]


def _read(dependencies: Sequence[dict[str, object]]) -> Findings:
    findings = Findings()
    for dependency in dependencies:
        vulnerabilities = dependency.get("vulns")
        if not isinstance(vulnerabilities, list):
            findings.unknown += 1
            continue
        findings.audited += 1
        for found in vulnerabilities:
            mended = ", ".join(found["fix_versions"]) or "no release yet"
            which = f"{dependency['name']} {dependency['version']}"
            findings.vulnerable.append(f"{which}: {found['id']}, mended in {mended}")
    return findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit every lock file and return the exit code."""
    parser = argparse.ArgumentParser(description="Look the locked dependencies up among known vulnerabilities.")
    parser.add_argument("--strict", action="store_true", help="fail where no service could be asked")
    parser.add_argument("--osv-url", help="ask this one alone")
    parser.add_argument("files", nargs="*", type=Path, default=sorted(REQUIREMENTS.glob("*.lock")))
    chosen = parser.parse_args(arguments)
    services = (("--vulnerability-service=osv", f"--osv-url={chosen.osv_url}"),) if chosen.osv_url else SERVICES
    reasons = []
    for service in services:
        found = []
        for group in groups(chosen.files):
            found.append(audit(group, service))
            if not found[-1].audited:
                break
        else:
            return _tell(found)
        reasons.append(found[-1].silent or f"it knows none of the {found[-1].unknown} packages")
    return _tell_in_vain(reasons, chosen.strict or os.environ.get("AUDIT") == "strict")


def _tell(found: Sequence[Findings]) -> int:
    vulnerable = sorted({line for findings in found for line in findings.vulnerable})
    for line in vulnerable:
        print(f"vulnerable: {line}", file=sys.stderr)
    unknown = sum(findings.unknown for findings in found)
    said = f", {unknown} unknown to the service" if unknown else ""
    audited = sum(findings.audited for findings in found)
    print(f"audit: {audited} locked packages, {len(vulnerable)} known vulnerabilities{said}")
    return 1 if vulnerable else 0


def _tell_in_vain(reasons: Sequence[str], strict: bool) -> int:
    rule = "!" * 100
    print(rule, "THE DEPENDENCIES WERE NOT AUDITED: no service for known vulnerabilities could be asked.", sep="\n")
    for reason in reasons:
        print(f"  {reason[:300]}")
    print("Run 'make lint' where one can be reached, with AUDIT=strict to insist on it.", rule, sep="\n", flush=True)
    return 1 if strict else 0


if __name__ == "__main__":
    sys.exit(main())
