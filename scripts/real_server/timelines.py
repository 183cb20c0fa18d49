"""Replays the real server's loads and unloads: the order of answers and states, without durations.

``tests/contract/golden/reload_timelines.json`` is the recording. A step waits for the state named by its
``after``; a step without it runs at once. The folders of a timeline are made from the recorded models.
"""

from __future__ import annotations

import base64
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from lightbox.model_runtime.wire.messages import get_model_status_pb2, model_management_pb2, predict_pb2
from lightbox.model_runtime.wire.status import Code
from lightbox.model_runtime.wire.stubs import model_service_pb2_grpc, prediction_service_pb2_grpc
from real_server.program import RECORD

_RECORDED = json.loads((RECORD / "reload_timelines.json").read_text())
TIMELINES: list[dict[str, Any]] = _RECORDED["timelines"]
SECONDS = 300.0
ATTEMPTS = 30
"""A step that comes at once in the record has 0.1 s for it: on a busy machine it may come too late."""

_POLL_SECONDS = 0.004
_SHORT = "LOADING"
_UNSEEN = "UNLOADING"
_UNKNOWN_MODEL = "NOT_FOUND"


def differences(channel: grpc.Channel, timeline: dict[str, Any], where: Path) -> list[str]:
    """Replay a timeline with its folders made below ``where``; repeat if it differs from the recording.

    Return the differences of the last replay.
    """
    make_folders(timeline, where)
    problems: list[str] = []
    for attempt in range(ATTEMPTS):
        suffix = f"-{TIMELINES.index(timeline)}-{attempt}"
        problems = Replay(channel, timeline, where, suffix).differences()
        if not problems:
            break
    return problems


def make_folders(timeline: dict[str, Any], where: Path) -> None:
    """Make the base paths that a timeline names, below ``where``."""
    for folder, versions in timeline["folders"].items():
        for version, kind in versions.items():
            _make_version(where / folder / version, kind)


def _make_version(path: Path, kind: str) -> None:
    if kind == "corrupt":
        path.mkdir(parents=True)
        (path / "saved_model.pb").write_bytes(b"garbage" * 100)
        return
    slow = kind == "slow to load"
    shutil.copytree(RECORD / "models" / ("slow" if slow else kind) / "1", path)
    if slow:
        extra = path / "assets.extra"
        extra.mkdir()
        (extra / "tf_serving_warmup_requests").write_bytes(base64.b64decode(_RECORDED["warm_up_of_slow_to_load"]))


class Replay:
    """One run of one timeline against a server; models have their recorded names plus ``suffix``.

    A server never forgets a name, so each run needs a suffix of its own.
    """

    def __init__(self, channel: grpc.Channel, timeline: dict[str, Any], folders: Path, suffix: str) -> None:
        self._timeline = timeline
        self._folders = folders
        self._suffix = suffix
        self._models = model_service_pb2_grpc.ModelServiceStub(channel)
        self._predictions = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._seen: list[str] = []
        self._news = threading.Condition()
        self._ended = threading.Event()

    def differences(self) -> list[str]:
        """Run every step and return the differences from the recording; unload all models afterwards."""
        watcher = threading.Thread(target=self._watch)
        watcher.start()
        try:
            self._wait_until(lambda: bool(self._seen))
            problems = [self._difference(step) for step in self._timeline["steps"]]
            recorded = [entry["seen"] for entry in self._timeline["states"]]
            if recorded:
                last = recorded[-1]
                self._wait_until(lambda: self._seen.count(last) >= recorded.count(last))
        finally:
            self._ended.set()
            watcher.join()
            self._reload({})
        return [text for text in [*problems, *compare_states(recorded, self._seen)] if text]

    # ------------------------------------------------------------------ steps

    def _difference(self, step: dict[str, Any]) -> str:
        if "after" in step:
            self._wait_until(lambda: self._seen[-1] == step["after"])
        got = self._reload(step["reload"]) if "reload" in step else self._predict(step["predict"])
        recorded = (step["code"], step["details"])
        return "" if got == recorded else f"{got} instead of {recorded} at {step['at_ms']} ms"

    def _reload(self, models: dict[str, str]) -> tuple[str, str]:
        request = model_management_pb2.ReloadConfigRequest()
        request.config.model_config_list.SetInParent()
        for name, folder in models.items():
            path = str(self._folders / folder)
            model = request.config.model_config_list.config.add(base_path=path, model_platform="tensorflow")
            model.name = name + self._suffix
            getattr(model.model_version_policy, self._timeline["policy"]).SetInParent()
        return self._answer(self._models.HandleReloadConfigRequest, request)

    def _predict(self, model: str) -> tuple[str, str]:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model + self._suffix
        request.inputs["x"].dtype = 1
        request.inputs["x"].tensor_shape.dim.add(size=1)
        request.inputs["x"].float_val.append(1.0)
        return self._answer(self._predictions.Predict, request)

    def _answer(self, call: Callable[..., Any], request: Any) -> tuple[str, str]:
        try:
            call(request, timeout=SECONDS)
        except grpc.RpcError as error:
            return error.code().name, self._as_recorded(error.details())
        return "OK", ""

    def _as_recorded(self, text: str) -> str:
        for folder in self._timeline["folders"]:
            text = text.replace(str(self._folders / folder), "...")
        return text.replace(self._suffix, "")

    # ----------------------------------------------------------------- states

    def _watch(self) -> None:
        while not self._ended.is_set():
            state = self._state()
            with self._news:
                if self._seen[-1:] != [state]:
                    self._seen.append(state)
                    self._news.notify_all()
            time.sleep(_POLL_SECONDS)

    def _state(self) -> str:
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self._timeline["watched"] + self._suffix
        try:
            response = self._models.GetModelStatus(request, timeout=SECONDS)
        except grpc.RpcError as error:
            return self._as_recorded(f"{error.code().name} {error.details()}")
        return " ".join(map(_shown, response.model_version_status))

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        with self._news:
            assert self._news.wait_for(condition, SECONDS), f"not within {SECONDS} s; seen: {self._seen}"


def _shown(item: get_model_status_pb2.ModelVersionStatus) -> str:
    state = get_model_status_pb2.ModelVersionStatus.State.Name(item.state)
    error = f"({Code(item.status.error_code).name})" if item.status.error_code else ""
    return f"{item.version}:{state}{error}"


def compare_states(recorded: list[str], seen: list[str]) -> list[str]:
    """Return the problems in a server's sequence of states.

    They must be recorded states in the recorded order. LOADING may be too short to be seen; every other state
    lasts 0.1 s; UNLOADING was always too short for the recorder.
    """
    if not recorded:
        return []
    kept = [state for state in seen if _UNSEEN not in state]
    if not recorded[0].startswith(_UNKNOWN_MODEL):
        kept = [state for state in kept if not state.startswith(_UNKNOWN_MODEL)]
    kept = [state for state, before in zip(kept, ["", *kept], strict=False) if state != before]
    rest = iter(recorded)
    problems = [f"{state} is not where it was recorded, in {kept}" for state in kept if state not in rest][:1]
    missed = Counter(state for state in recorded if _SHORT not in state) - Counter(kept)
    return problems + [f"{state} was not seen in {kept}" for state in missed]
