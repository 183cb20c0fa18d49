"""The results as pages: python -m benchmark.pages RESULTS.json FOLDER writes them anew from a run's document."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from benchmark.results import Document


def write(document: Document, folder: Path) -> None:
    """Write README.md, a page for each scenario that was run, and the plots beside them."""
    import capacity
    from benchmark.pages import index, plots, scenario

    drawn = plots.draw_all(document, folder / "plots")
    for result in document["scenarios"]:
        (folder / f"{result['key']}.md").write_text(scenario.page(document, result, drawn))
    with suppress(capacity.NoFigures):
        (folder / "capacity.md").write_text(capacity.page(document))
    (folder / "README.md").write_text(index.page(document, folder))
