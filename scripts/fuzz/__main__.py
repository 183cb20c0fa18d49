"""Fuzzes each target for an equal share of the time: python -m fuzz --help"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

from fuzz import seeds
from fuzz.targets import TARGETS

FOLDER = seeds.REPOSITORY / "build" / "fuzz"
SLOWEST_SECONDS = 20
"""For one input."""
MOST_MEMORY_MB = 1000
"""Of one process, atheris's own part included."""


@click.command("fuzz")
@click.option("--seconds", default=300, show_default=True, help="For all targets together.")
@click.option("--runs", type=int, help="So many inputs for each target instead, however long they take.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="Of inputs and logs.")
@click.argument("targets", nargs=-1, type=click.Choice(list(TARGETS)), metavar="[TARGET]...")
def main(seconds: int, runs: int | None, folder: Path, targets: tuple[str, ...]) -> None:
    """Fuzz each target for an equal share of the time; the exit code is 0 when no input broke anything."""
    chosen = targets or tuple(TARGETS)
    limit = f"-runs={runs}" if runs else f"-max_total_time={max(1, seconds // len(chosen))}"
    broken = [name for name in chosen if not fuzz(name, limit, folder / name)]
    if broken:
        print(f"== broken: {', '.join(broken)}; put the inputs into {seeds.FOUND}/TARGET/ with the fix")
        sys.exit(1)


def fuzz(target: str, limit: str, folder: Path) -> bool:
    """Run one target; return whether it passed. Inputs with new coverage stay in ``folder`` for the next run."""
    begin, grown = folder / "begin", folder / "grown"
    shutil.rmtree(begin, ignore_errors=True)
    for path in (begin, grown):
        path.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds.seeds(target)):
        (begin / f"{number:04}").write_bytes(data)
    flags = [
        limit,
        f"-timeout={SLOWEST_SECONDS}",
        f"-rss_limit_mb={MOST_MEMORY_MB}",
        f"-max_len={seeds.LARGEST}",
        f"-artifact_prefix={folder}/",
    ]
    command = [sys.executable, "-m", "fuzz.one", target, *flags, str(grown), str(begin)]
    with (folder / "log.txt").open("wb") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode  # noqa: S603
    print(f"== {target:18} {summary(folder / 'log.txt')}{'' if code == 0 else f': BROKEN, see {folder}'}", flush=True)
    return code == 0


def summary(log: Path) -> str:
    """Return runs and coverage from libFuzzer's last progress line."""
    text = log.read_text(errors="replace")
    found = re.findall(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\S+)", text, re.MULTILINE)
    if not found:
        return "did not run"
    runs, branches, _, inputs = found[-1]
    return f"{int(runs):9,} inputs, {branches:>5} branches reached by {inputs.partition('/')[0]} of them"


if __name__ == "__main__":
    main()
