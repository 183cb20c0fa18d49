"""The metrics of workers, each in a separate process as under gunicorn."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typing_extensions import override

from lightbox.base.telemetry import metrics
from lightbox.base.telemetry.metrics import (
    CPU,
    FILE_BYTES,
    LOG_LINES_DROPPED,
    MEMORY,
    METRICS_FOLDER,
    MODEL_ENGINE,
    MODEL_REFUSED,
    MODEL_REQUESTS,
    MODEL_RUNNING,
    MOST_MODELS,
    PARTS,
    VERSION_NOT_SERVED,
    Metric,
    claim_slot,
    read_counts,
)
from lightbox.base.telemetry.saturation import Saturation
from lightbox.core.additions import Measured
from lightbox.features import FEATURES
from lightbox.model.engine_report import FOLDER, all_engines, engines_of
from lightbox.model_files.layout import LONGEST_NAME
from lightbox.supervisor.watching.metrics_page import MetricsPage, exposition
from lightbox.transports.model_status import ModelStatus, VersionStatus
from support.metrics import COUNTERS, GAUGES, HISTOGRAMS, series_names

CONTAINER = Path(metrics.__file__).parents[3]
ENVIRON = os.environ | {"PYTHONPATH": str(CONTAINER)}
START = """
import os, sys
from pathlib import Path
from lightbox.base.request_context import STAGES, RequestContext
from lightbox.base.telemetry.logs import FinishedRequest
from lightbox.base.telemetry.metrics import WorkerMetrics
metrics = WorkerMetrics(Path(sys.argv[1]), ["cats"])
def answer(model="cats", code=None):
    context = RequestContext(30)
    context.model, context.transport, context.images = model, "grpc", [("PNG", 64)]
    context.stages = dict.fromkeys(STAGES, 0.003)
    metrics.responded(FinishedRequest("i", "POST", "/p", "/invocations", 400 if code else 200, 10, 20, code, context))
"""


def worker(folder: Path, code: str) -> None:
    """Run a worker that dies without any clean-up."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{START}{code}\nos.kill(os.getpid(), 9)", folder], env=ENVIRON, check=False
    )
    assert ended.returncode == -9


def sums(text: str) -> dict[str, float]:
    """Return the sum of each series name of a page."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def samples(folder: Path) -> dict[str, float]:
    """Return the sum of each series name of the workers."""
    return sums(exposition(folder, {}, {}).decode())


def test_living_workers_have_numbers_of_their_own(tmp_path: Path) -> None:
    first, held = claim_slot(tmp_path)
    second, other = claim_slot(tmp_path)
    assert (first, second) == (0, 1)
    os.close(held)
    third, again = claim_slot(tmp_path)
    assert third == 0
    os.close(other)
    os.close(again)


def test_models_that_come_and_go_do_not_make_series_for_ever(tmp_path: Path) -> None:
    worker(tmp_path, f"for n in range({3 * MOST_MODELS}): answer(f'model-{{n}}')")
    worker(tmp_path, f"for n in range({3 * MOST_MODELS}): answer(f'later-{{n}}')")
    text = exposition(tmp_path, {}, {}).decode()
    counts = [row for row in text.splitlines() if row.startswith("lightbox_requests_total{")]
    assert len(counts) == MOST_MODELS  # "cats" has no row; the models over the limit share one
    assert sum(float(row.rpartition(" ")[2]) for row in counts) == 6 * MOST_MODELS


def test_a_request_is_answered_where_there_is_no_room_for_its_figures(tmp_path: Path) -> None:
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limited += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_BYTES}, {FILE_BYTES}))\n"
    worker(tmp_path, f"{limited}for n in range({MOST_MODELS}): answer(f'model-{{n}}')")
    found = samples(tmp_path)
    assert 0 < found["lightbox_request_seconds_count"] < found["lightbox_requests_total"] == MOST_MODELS


def test_the_engines_that_the_model_server_reported(tmp_path: Path) -> None:
    reply = tmp_path / FOLDER / "cats%2Fdogs"
    reply.mkdir(parents=True)
    (reply / "7.json").write_text('{"serving_default": {"engine": "openvino", "reason": "faster"}}')
    (reply / "8.new").write_text("{")
    (reply / "9.json").write_text("{")
    found = list(all_engines(tmp_path))
    assert found == engines_of(tmp_path, "cats/dogs", 7)
    assert engines_of(tmp_path, "cats/dogs", 9) == engines_of(tmp_path, "birds", 1) == []
    facts = {MODEL_ENGINE: {(item.model, str(item.version), *item[2:4]): 1.0 for item in found}}
    line = 'lightbox_model_engine{engine="openvino",model="cats/dogs",signature="serving_default",version="7"} 1.0'
    assert line in exposition(tmp_path / "metrics", facts, {}).decode()


@pytest.mark.parametrize("of_workers", [0, 2])
def test_what_nginx_refused_is_among_the_rejected(tmp_path: Path, of_workers: int) -> None:
    for _ in range(of_workers):
        worker(tmp_path, "answer(code='queue_full'); answer(code='too_large')")
    text = exposition(tmp_path, {}, {"queue_full": 7}).decode()
    rejected = [line for line in text.splitlines() if line.startswith("lightbox_rejected_total{")]
    assert f'lightbox_rejected_total{{reason="queue_full"}} {7.0 + of_workers}' in rejected
    assert len(rejected) == (2 if of_workers else 1)
    assert text.count("# TYPE lightbox_rejected") == 1


class Serving(ModelStatus):
    @override
    async def versions(self, model: str) -> dict[int, VersionStatus]:
        return {1: VersionStatus("AVAILABLE")}


def test_every_name_is_shown_and_explained(tmp_path: Path) -> None:
    (tmp_path / FOLDER / "cats").mkdir(parents=True)
    (tmp_path / FOLDER / "cats" / "1.json").write_text('{"serving_default": {"engine": "openvino", "reason": ""}}')
    (tmp_path / METRICS_FOLDER).mkdir()
    worker(tmp_path / METRICS_FOLDER, "answer(code='too_large')")
    measured: dict[Metric, Measured] = {metric: 1.0 for feature in FEATURES for metric in feature.metrics}
    measured |= {metric: {"cats": 1.0} for metric in (MODEL_REQUESTS, MODEL_RUNNING, MODEL_REFUSED, MEMORY, CPU)}
    measured |= {LOG_LINES_DROPPED: 1.0, VERSION_NOT_SERVED: {("cats", "2", "files"): 1.0}}
    page = MetricsPage([Serving("127.0.0.1:0")], tmp_path, lambda: ["cats"], {}, lambda: measured)
    page.restarts["nginx"] += 1
    page.hangs["model_server"] += 1
    text = asyncio.run(page.render(True, Saturation(tmp_path, 1))).decode()
    assert set(sums(text)) == series_names()
    for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES):
        assert metric.help in text


def test_a_handlers_own_metrics_are_shown(tmp_path: Path) -> None:
    own = "from prometheus_client import Counter; Counter('cats_seen', 'Cats.').inc(3)"
    worker(tmp_path, own)
    worker(tmp_path, own)
    assert samples(tmp_path)["cats_seen_total"] == 6


@pytest.mark.extended
def test_without_a_request_for_metrics_nothing_is_imported() -> None:
    code = "import sys, lightbox.supervisor.supervisor, lightbox.serving.worker\n"
    code += "assert 'prometheus_client' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], env=ENVIRON, check=True)


VERSIONS = """
import os, sys
from pathlib import Path
from lightbox.base.request_context import STAGES, RequestContext
from lightbox.base.telemetry.logs import FinishedRequest
from lightbox.base.telemetry.metrics import VersionCounts
counts = VersionCounts(Path(sys.argv[1]))
def answer(status=200, version=3, method="POST"):
    context = RequestContext(30)
    context.model, context.version = "cats", version
    context.stages = {name: 0.001 * 2**at for at, name in enumerate(STAGES[1:-1])}
    context.finish()
    counts.responded(FinishedRequest("i", method, "/p", "/p", status, 1, 2, None, context))
"""


def test_the_predictions_of_a_version_are_counted_over_all_processes(tmp_path: Path) -> None:
    assert set(read_counts(tmp_path, "cats", 3).values()) == {0}
    began = time.time_ns() // 1_000_000
    # The first two run at once and have a row each; the third reuses the row of an ended process.
    with subprocess.Popen(
        [sys.executable, "-c", f"{VERSIONS}answer(); print(flush=True); input()", tmp_path],
        env=ENVIRON,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as first:
        assert first.stdout is not None
        first.stdout.readline()
        for _ in range(2):
            code = "answer(); answer(500); answer(version=4); answer(version=None); answer(method='GET')"
            subprocess.run([sys.executable, "-c", VERSIONS + code, tmp_path], env=ENVIRON, check=True)
        first.communicate(b"\n")
    found = read_counts(tmp_path, "cats", 3)
    assert (found["success_count"], found["fail_count"]) == (3, 2)
    assert read_counts(tmp_path, "cats", 4)["success_count"] == 2
    assert read_counts(tmp_path, "cat", 3)["success_count"] == 0
    parts = {"receive": 1, "session": 2, "load": 4, "signature": 8, "wait": 16, "decode": 32, "preprocess": 64}
    parts |= {"encode": 128, "predict": 256, "decode_response": 512, "postprocess": 1024, "handler": 2048}
    for part, stages in PARTS.items():
        assert found[part] == 3_000_000 * sum(parts.get(stage, 0) for stage in stages), part
    assert began <= found["last_ms"] <= time.time_ns() // 1_000_000
    assert len(list((tmp_path / "counts_of_versions").glob("*.lock"))) == 2


@pytest.mark.parametrize("name", ["n" * LONGEST_NAME, "0.lock", "models"])
def test_any_name_of_a_model_is_counted(tmp_path: Path, name: str) -> None:
    code = VERSIONS.replace('"cats"', repr(name)) + "answer()"
    subprocess.run([sys.executable, "-c", code, tmp_path], env=ENVIRON, check=True)
    assert read_counts(tmp_path, name, 3)["success_count"] == 1


def test_a_prediction_is_answered_where_there_is_no_room_to_count_it(tmp_path: Path) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); import signal; "
    code += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); answer(); os._exit(0)"
    subprocess.run([sys.executable, "-c", VERSIONS + code, tmp_path], env=ENVIRON, check=True)
    assert read_counts(tmp_path, "cats", 3)["success_count"] == 0
