"""Renders the chart in deploy/helm/lightbox by Helm's code in a separate process: its runtime is not fork-safe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from support import commands
from support.stack import REPOSITORY

CHART = REPOSITORY / "deploy" / "helm" / "lightbox"


def render_chart(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/render_chart.py."""
    command = [sys.executable, str(REPOSITORY / "scripts" / "render_chart.py"), *arguments]
    return commands.run(command)


def rendered(values: dict[str, Any], folder: Path) -> dict[str, dict[str, Any]]:
    """Return the chart's manifests by kind, one of each; the folder is for the values file."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = render_chart("--values", str(file), "--name", "lightbox", "--namespace", "vision")
    assert done.returncode == 0, done.stderr
    manifests = list(yaml.safe_load_all(done.stdout))
    by_kind = {manifest["kind"]: manifest for manifest in manifests}
    assert len(by_kind) == len(manifests)
    return by_kind
