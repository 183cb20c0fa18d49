"""Rewrites the pages from a run's document: python -m benchmark.pages RESULTS.json FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmark import pages, results

if __name__ == "__main__":
    source, folder = (Path(argument) for argument in sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    pages.write(results.read(source), folder)
