"""Renders the chart in deploy/helm/lightbox like ``helm template``, without Helm or a cluster.

    python scripts/render_chart.py --values our.yaml | kubectl apply -f -

With --write it writes deploy/kubernetes/lightbox.yaml, the chart with its default values: ``make manifests``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart
from helm_python.errors import HelmError

REPOSITORY = Path(__file__).resolve().parents[1]
CHART = REPOSITORY / "deploy" / "helm" / "lightbox"
PLAIN = REPOSITORY / "deploy" / "kubernetes" / "lightbox.yaml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or write the manifests; return the exit code, 1 for values that the chart refuses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="lightbox", help="the release's name, which all objects have")
    parser.add_argument("--namespace", default="default", help="where they will be")
    parser.add_argument("--values", type=Path, help="a file in YAML with what differs from the chart's values.yaml")
    parser.add_argument("--write", action="store_true", help=f"write {PLAIN.relative_to(REPOSITORY)} in place")
    options = parser.parse_args(arguments)
    try:
        values = yaml.safe_load(options.values.read_text()) if options.values else {}
        manifests = render(values or {}, options.name, options.namespace)
    except (OSError, yaml.YAMLError, HelmError) as problem:
        print(f"render_chart: {problem}", file=sys.stderr)
        return 1
    if options.write:
        PLAIN.write_text(
            f"# The chart in deploy/helm/lightbox with its default values, written by make manifests.\n{manifests}"
        )
    else:
        print(manifests, end="")
    return 0


def render(values: dict[str, Any], name: str, namespace: str) -> str:
    """Return the manifests for values, each with its template; raise HelmError for wrong values."""
    with Chart.load(CHART) as chart:
        rendered = chart.render(values, name=name, namespace=namespace)
    texts = {template: text.strip() for template, text in sorted(rendered.items()) if template.endswith(".yaml")}
    return "".join(f"---\n# Source: {template}\n{text}\n" for template, text in texts.items() if text)


if __name__ == "__main__":
    sys.exit(main())
