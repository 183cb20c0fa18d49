"""The log line for a handler that waits, and the metrics of shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightbox.base.telemetry.metrics import MODEL_REFUSED, MODEL_REQUESTS, MODEL_RUNNING
from lightbox.core.places import Counts, Places
from lightbox.model.catalogue import PlannedModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ServingPlan
from lightbox.model_runtime.cores import available_cores
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.watching.share_watch import AGAIN_SECONDS, ShareWatch

FULL, FREE = Counts(20, 8, 0), Counts(8, 8, 0)


class World:
    """Models with and without code, and the processor time that they used."""

    used = 0.0

    def __init__(self, folder: Path) -> None:
        (folder / "inference.py").touch()
        models = {
            name: PlannedModel(name=name, base_path=folder, options=ModelOptions(), code_dirs=dirs)
            for name, dirs in {"coded": (folder,), "bare": ()}.items()
        }
        plan = ServingPlan(models=models, default_model="bare", model_servers=())
        self.watch = ShareWatch(plan, load_settings({}), folder, lambda: self.used)

    def look(self, now: float, used: float, **counts: Counts) -> None:
        self.used = used
        self.watch.look(now, counts)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_handler_that_waits_is_named_once(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.look(100, 0, coded=FULL, bare=FULL)
    assert not capfd.readouterr().err
    world.look(105, 1, coded=FULL, bare=FULL)
    said = capfd.readouterr().err
    assert said.count("warning: ") == 1
    assert "the model 'coded' wait for its inference.py while the processor idles: 8 run at once" in said
    world.look(110, 2, coded=FULL)
    assert not capfd.readouterr().err
    world.look(105 + AGAIN_SECONDS, 3, coded=FULL)
    assert "warning" in capfd.readouterr().err


def test_a_busy_processor_and_a_short_queue_are_not_named(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    world.look(100, 0, coded=FULL)
    world.look(105, 5 * available_cores(), coded=FULL)
    world.look(110, 5 * available_cores(), coded=FREE)
    world.look(115, 5 * available_cores(), coded=FULL)
    assert not capfd.readouterr().err


def test_the_metrics_of_models(world: World, tmp_path: Path) -> None:
    places = Places(tmp_path, 2, 0).of("coded", None)
    assert (places.enter(), places.begin(), places.enter()) == (True, True, False)
    assert world.watch.measure() == {
        MODEL_REQUESTS: {"coded": 1},
        MODEL_RUNNING: {"coded": 1},
        MODEL_REFUSED: {"coded": 1},
    }


def test_a_model_with_a_concurrency_has_a_share_of_its_own(tmp_path: Path) -> None:
    models = {
        name: PlannedModel(name=name, base_path=tmp_path, options=ModelOptions(concurrency=most))
        for name, most in {"own": 300, "unasked": 20, "other": None}.items()
    }
    plan = ServingPlan(models=models, default_model="own", model_servers=())
    watch = ShareWatch(plan, load_settings({}), tmp_path, lambda: 0)
    assert watch.own() == []
    places = Places(tmp_path, 2, 0)
    assert places.of("own", 300).enter()
    assert places.of("other", None).enter()
    assert watch.own() == [(1, 300)]
