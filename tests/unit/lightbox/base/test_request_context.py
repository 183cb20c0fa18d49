"""The stages of a request: each moment belongs to one, and they sum to the total in header, log and metrics."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lightbox.base.request_context import OTHER, QUEUE, STAGES, TOTAL, RequestContext
from lightbox.model.options import ModelOptions
from support.fakes import fake_app, mean_server, png
from support.parameters import each
from support.patience import PATIENCE

PAGE = Path(__file__).parents[4] / "docs" / "observability.md"
IMAGE = png(np.zeros((4, 4, 3), np.uint8))
HALF_A_DIGIT = 0.0005


def parts(header: str) -> dict[str, float]:
    """Return the stages of a Server-Timing header, in milliseconds."""
    return {name: float(value) for name, value in (part.split(";dur=") for part in header.split(", "))}


def assert_adds_up(times: dict[str, float]) -> None:
    stages = dict(times)
    total = stages.pop(TOTAL)
    assert set(stages) <= set(STAGES)
    assert sum(stages.values()) == pytest.approx(total, abs=HALF_A_DIGIT * (len(times) + 1))


def test_a_stage_inside_another_counts_once() -> None:
    context = RequestContext(30)
    with context.stage("preprocess"):
        with context.stage("wait"):
            time.sleep(0.03)
        with context.stage("wait"):
            time.sleep(0.03)
    context.finish()
    assert context.stages["wait"] >= 0.06
    times = context.durations()
    assert sum(times.values()) == pytest.approx(2 * times[TOTAL])
    assert times["preprocess"] + times["wait"] <= times[TOTAL]


def test_what_other_threads_do_meanwhile_belongs_to_the_stage_that_is_open() -> None:
    context = RequestContext(30)

    def work() -> None:
        with context.stage("decode"):
            time.sleep(0.02)

    with context.stage("handler"):
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    context.finish()
    assert set(context.durations()) == {"handler", OTHER, TOTAL}
    assert sum(context.stages.values()) <= context.durations()[TOTAL]


def test_the_wait_for_a_thread_is_a_stage_and_a_part_of_the_total() -> None:
    context = RequestContext(30, waited=2.0)
    with context.within(5), context.stage("predict"):
        pass
    context.finish()
    first = context.durations()
    assert (next(iter(first)), first[QUEUE]) == (QUEUE, 2.0)
    assert first[TOTAL] >= 2.0
    time.sleep(0.01)
    assert context.durations() == first, "what is told last is what was told first"


@each("environ", [{}, {"SAGEMAKER_MULTI_MODEL": "false"}])
@each("body", [IMAGE, b"no image"])
def test_the_stages_of_every_route_add_up(environ: dict[str, str], body: bytes) -> None:
    transport = mean_server()
    app = fake_app(transport, {"mean": ModelOptions()}, environ)
    client = app.test_client()
    asked = 0
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(\w+)>", lambda match: {"model": "mean", "version": "1"}.get(match[1], "mean"), rule.rule)
        for method in (rule.methods or set()) & {"GET", "POST", "DELETE"}:
            answer = client.open(path, method=method, data=body, content_type="image/png")
            assert_adds_up(parts(answer.headers["Server-Timing"]))
            asked += 1
    assert asked >= 10
    assert_adds_up(parts(client.get("/nowhere").headers["Server-Timing"]))


def test_what_is_not_there_is_looked_for_until_the_deadline() -> None:
    looks = iter([None, None, 0, None, None])
    assert RequestContext(PATIENCE).poll(lambda: next(looks), 0.001) == 0
    for context, seconds in ((RequestContext(0), PATIENCE), (RequestContext(PATIENCE), 0.0)):
        assert context.poll(lambda: next(looks), 0.001, seconds) is None
    assert list(looks) == []


def test_the_page_defines_each_stage_in_order() -> None:
    table = PAGE.read_text().partition("## Where the time goes")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == [*STAGES, TOTAL]
