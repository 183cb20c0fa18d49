"""Fuzzes each target for an equal share of the time.

python -m fuzz [--seconds N | --runs N] [--folder FOLDER] [TARGET ...]
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from fuzz import seeds
from fuzz.targets import TARGETS

SLOWEST_SECONDS = 20
"""For all runs of an input, the one that follows allocations included; ``cost`` bounds its processor time."""
MOST_MEMORY_MB = 1000
"""Of one process, atheris's own part included."""


def main(arguments: list[str] | None = None) -> int:
    """Fuzz, say what came out, and return 0 when no input broke anything."""
    options = parse(arguments)
    chosen = options.targets or list(TARGETS)
    limit = f"-runs={options.runs}" if options.runs else f"-max_total_time={max(1, options.seconds // len(chosen))}"
    broken = [name for name in chosen if not fuzz(name, limit, options.folder / name)]
    if broken:
        print(f"== broken: {', '.join(broken)}; put the inputs into {seeds.FOUND}/TARGET/ with the fix")
    return 1 if broken else 0


def fuzz(target: str, limit: str, folder: Path) -> bool:
    """Run one target; tell whether it held. What gave new coverage stays in ``folder`` for the next run."""
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
    """Return what libFuzzer's last line of progress says: runs and coverage."""
    text = log.read_text(errors="replace")
    found = re.findall(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\S+)", text, re.MULTILINE)
    if not found:
        return "did not run"
    runs, branches, _, inputs = found[-1]
    return f"{int(runs):9,} inputs, {branches:>5} branches reached by {inputs.partition('/')[0]} of them"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="for all targets together (300)")
    parser.add_argument("--runs", type=int, help="this many inputs for each target instead of a time limit")
    parser.add_argument("--folder", type=Path, default=seeds.REPOSITORY / "build" / "fuzz", help="of inputs and logs")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    options = parser.parse_args(arguments)
    for name in options.targets:
        if name not in TARGETS:
            parser.error(f"there is no target {name!r}; choose from {', '.join(TARGETS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
