"""The places of models: counted in all processes, with those of killed ones given back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from lightbox.core.places import Counts, ModelPlaces, Places, counts_of_keys, counts_of_models

HOLDER = """
import sys, time
from pathlib import Path
from lightbox.core.places import Places
places = Places(Path(sys.argv[1]), 20, 4).of("m", None)
for _ in range(10):
    places.enter()
places.begin()
print("held", flush=True)
time.sleep(3600)
"""


def entered(places: ModelPlaces) -> int:
    """Return how many places a model gets, at most 100."""
    return next((count for count in range(100) if not places.enter()), 100)


def test_a_model_leaves_as_many_places_as_it_has(tmp_path: Path) -> None:
    first, second = Places(tmp_path, 20, 4), Places(tmp_path, 20, 4)
    assert entered(first.of("a", None)) == 10
    assert entered(second.of("a", None)) == 0, "they count in all processes"
    assert entered(second.of("b", None)) == 5
    first.of("a", None).leave()
    assert entered(second.of("", None)) == 3
    assert entered(first.of("a", None)) == 0


def test_a_model_with_a_concurrency_has_its_own(tmp_path: Path) -> None:
    places = Places(tmp_path, 20, 4)
    assert entered(places.of("own", 30)) == 34
    assert entered(places.of("a", None)) == 10


def test_the_counts_of_models_and_keys(tmp_path: Path) -> None:
    assert counts_of_models(tmp_path) == {}
    places = Places(tmp_path, 20, 4)
    model = places.of("a", None)
    assert entered(model) == 10
    model.begin()
    places.of("", None).enter()
    places.of_key("ci", 3).enter()
    assert counts_of_models(tmp_path) == {"a": Counts(10, 1, 1)}
    assert counts_of_keys(tmp_path) == {"ci": Counts(1, 0, 0)}


def test_a_model_alone_has_all(tmp_path: Path) -> None:
    assert entered(Places(tmp_path, 20, 4).of("a", None, alone=True)) == 100


def test_a_key_has_its_places_for_all_models(tmp_path: Path) -> None:
    places = Places(tmp_path, 20, 4)
    assert entered(places.of_key("ci", 3)) == 3
    assert entered(places.of("ci", None)) == 10


def test_a_killed_process_gives_its_places_back(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    places = Places(tmp_path, 20, 4)
    assert not places.of("m", None).enter()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    places._cleared = 0.0
    assert entered(places.of("m", None)) == 10
    assert sum(places.of("m", None).numbers[1::3]) == 0


def test_the_next_process_clears_the_row_of_a_killed_one(tmp_path: Path) -> None:
    places = Places(tmp_path, 20, 4)
    assert entered(places.of("m", None)) == 10
    os.close(places._slot)  # as the kernel does
    assert entered(Places(tmp_path, 20, 4).of("m", None)) == 10
