"""Says what is being measured and what came out, as it happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any


class Progress:
    """Lines on stderr, each with the time since the start."""

    def __init__(self, scenarios: int) -> None:
        self._began = time.perf_counter()
        self._scenarios = scenarios
        self._current = 0

    def say(self, text: str) -> None:
        """Say one step."""
        print(f"== {time.perf_counter() - self._began:6.1f} s  {text}", file=sys.stderr, flush=True)

    def scenario(self, title: str) -> None:
        """Say that a scenario begins."""
        self._current += 1
        self.say(f"[{self._current}/{self._scenarios}] {title}")

    def round(self, title: str, number: int, of: int) -> None:
        """Say that a round begins."""
        self.say(f"  {title}: round {number} of {of}")

    def experiment(self, title: str, variants: Sequence[Mapping[str, Any]]) -> None:
        """Say what an experiment gave."""
        self.say(f"  {title}:")
        for variant in variants:
            if "p50" in variant:
                ratio = f", {variant['ratio']:.2f} x floor" if variant.get("ratio") else ""
                figure = f"p50 {variant['p50']:8.1f} ms, {variant['throughput']:7.1f} requests/s{ratio}"
            else:
                figure = "no answer"
            failed = f"; {variant['errors']} failed: {variant['first_error'][:120]}" if variant["errors"] else ""
            print(f"              {variant['name']:32} {figure}{failed}", file=sys.stderr, flush=True)
