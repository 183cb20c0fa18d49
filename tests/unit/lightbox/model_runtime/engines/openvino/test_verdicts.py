"""A stored verdict is valid for a model's files and for one type of processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lightbox.model_runtime.engines import disk_cache
from lightbox.model_runtime.engines.hardware import Hardware
from lightbox.model_runtime.engines.openvino import canary, verdicts
from lightbox.model_runtime.engines.openvino.guards import REASONS, TIED
from lightbox.model_runtime.wire.messages import meta_graph_pb2
from lightbox.model_runtime.wire.status import invalid
from support.models import GOLDEN
from support.parameters import each

MODEL = str(GOLDEN / "half_plus_two" / "1")


def test_another_processor_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, cache = verdicts.Key.of(MODEL, "f32"), str(tmp_path)
    found = {"serving_default": verdicts.Verdict(verdicts.OPENVINO, "faster", is_equal=True)}
    verdicts.keep(key, cache, found)
    assert verdicts.recall(MODEL, key, cache) == found
    assert verdicts.recall(MODEL, verdicts.Key.of(MODEL, "bf16"), cache) is None
    monkeypatch.setattr(verdicts, "processor", lambda: "another")
    assert verdicts.recall(MODEL, key, cache) is None


@each("signatures", [None, ["net"], {"net": "openvino"}, {"net": {"engine": "openvino", "at": 2}}])
def test_what_another_release_has_written_is_found_out_again(tmp_path: Path, signatures: Any) -> None:
    key, cache = verdicts.Key.of(MODEL, "f32"), str(tmp_path)
    verdicts.keep(key, cache, {"net": verdicts.Verdict(verdicts.OPENVINO, "faster", is_equal=True)})
    (place,) = tmp_path.iterdir()
    content = disk_cache.read(place)
    assert content is not None
    for spoiled in ({"of": "another"}, content | {"signatures": signatures}):
        disk_cache.write(place, spoiled)
        assert verdicts.recall(MODEL, key, cache) is None


@pytest.mark.parametrize(("reason", "lasts"), [(REASONS[TIED], True), ("model.json cannot be read", False)])
def test_a_guard_s_reason_lasts(monkeypatch: pytest.MonkeyPatch, reason: str, lasts: bool) -> None:
    def refuse(*_: object) -> verdicts.Verdict:
        raise invalid(reason)

    monkeypatch.setattr(canary, "_compared", refuse)
    task = canary.Task("1", ("serve",), ("s",), "", Hardware(1, 1))
    found = canary._judge(task, meta_graph_pb2.MetaGraphDef(), "s", None)
    assert found == verdicts.Verdict(verdicts.TENSORFLOW, reason, lasts=lasts)
