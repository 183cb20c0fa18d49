"""Metrics and log lines of a running stack, for operators."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from lightbox import __version__
from support import commands
from support.fakes import png
from support.log_lines import without_times
from support.models import export_constant
from support.otlp import receiving
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, Stack, lives, running

IMAGE = png(np.zeros((8, 8, 3), np.uint8))
MOST_MB = 110


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("models")
    export_constant(folder / "constant", 1, 0.5)
    return folder


@pytest.fixture(scope="module")
def observed_stack(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(
        models, tmp_path_factory.mktemp("json"), LIGHTBOX_LOG_FORMAT="json", LIGHTBOX_HOST="127.0.0.1"
    ) as running_stack:
        yield running_stack


def series(observed_stack: Stack) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the value of each series of /metrics by name and labels."""
    answer = requests.get(f"{observed_stack.url}/metrics", timeout=PATIENCE)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(observed_stack: Stack, name: str, **labels: str) -> float:
    """Return the sum of the series with these labels."""
    wanted = set(labels.items())
    return sum(number for (found, has), number in series(observed_stack).items() if found == name and wanted <= has)


def rss_mb(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


def workers(observed_stack: Stack) -> list[psutil.Process]:
    gunicorns = {process.pid: process for process in observed_stack.processes("gunicorn")}
    return [process for process in gunicorns.values() if process.ppid() in gunicorns]


def metric_files(observed_stack: Stack) -> set[str]:
    return {path.name for path in observed_stack.tmp.rglob("metrics/*")}


def request_lines(observed_stack: Stack) -> list[dict[str, object]]:
    return [line for line in map(json.loads, observed_stack.log.splitlines()) if line["message"] == "request"]


def lines_of(observed_stack: Stack, request_id: str) -> list[dict[str, Any]]:
    """Return a request's lines in the log, which come after its answer."""
    lines = ([line for line in request_lines(observed_stack) if line["request_id"] == request_id] for _ in poll())
    return next(filter(None, lines))


def test_requests_are_counted_by_route_model_wire_and_status(observed_stack: Stack) -> None:
    labels = {"route": "/invocations", "model": "constant", "status": "200"}
    before = {
        wire: value(observed_stack, "lightbox_requests_total", transport=wire, **labels) for wire in ("grpc", "rest")
    }
    pixels = value(observed_stack, "lightbox_image_pixels_sum", format="PNG")
    for wire in ("grpc", "grpc", "rest"):
        header = {"X_Amzn_SageMaker_Custom_Attributes": f"tfs-transport={wire}"}
        assert observed_stack.invoke(IMAGE, Content_Type="image/png", **header).status_code == 200
    assert value(observed_stack, "lightbox_requests_total", transport="grpc", **labels) == before["grpc"] + 2
    assert value(observed_stack, "lightbox_requests_total", transport="rest", **labels) == before["rest"] + 1
    assert value(observed_stack, "lightbox_image_pixels_sum", format="PNG") == pixels + 3 * 64
    assert value(observed_stack, "lightbox_stage_seconds_count", stage="predict", transport="rest") >= 1
    assert value(observed_stack, "lightbox_request_bytes_total", route="/invocations") >= 3 * len(IMAGE)
    assert value(observed_stack, "lightbox_response_bytes_total", route="/invocations") > 0
    assert value(observed_stack, "lightbox_requests_in_progress") == 0


def test_stages_add_up_to_the_total_in_the_header_the_log_and_the_metrics(observed_stack: Stack) -> None:
    for number, wire in enumerate(("grpc", "rest")):
        headers = {"X_Amzn_SageMaker_Custom_Attributes": f"tfs-transport={wire}", "X_Request_Id": f"adds-up-{number}"}
        answer = observed_stack.invoke(IMAGE, Content_Type="image/png", **headers)
        shown = {name: float(time) for name, time in re.findall(r"(\w+);dur=([\d.]+)", answer.headers["Server-Timing"])}
        (line,) = lines_of(observed_stack, f"adds-up-{number}")
        logged = {name.removesuffix("_ms"): time for name, time in line.items() if name.endswith("_ms")}
        assert logged == shown
        assert sum(shown.values()) == pytest.approx(2 * shown["total"], abs=0.0005 * (len(shown) + 1))
    stages, whole = (
        value(observed_stack, f"lightbox_{name}_seconds_sum", transport="grpc") for name in ("stage", "request")
    )
    assert stages == pytest.approx(whole)


def test_the_commands_of_the_page_on_scaling_show_the_saturation(observed_stack: Stack) -> None:
    page = (REPOSITORY / "docs" / "scaling.md").read_text()
    (block,) = [block for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if "curl" in block]
    command = block.replace("localhost:8080", f"127.0.0.1:{observed_stack.port}")
    printed = commands.output(["bash", "-ec", command])
    header, series = printed.splitlines()
    assert re.fullmatch(r"(?i)x-lightbox-saturation: [01]\.\d{3}\s*", header)
    assert re.fullmatch(r"lightbox_saturation [01]\.\d+", series)


def test_refusals_are_counted_by_reason(observed_stack: Stack) -> None:
    before = value(observed_stack, "lightbox_rejected_total", reason="image_undecodable")
    assert observed_stack.invoke(b"no image", Content_Type="image/png").status_code == 400
    assert value(observed_stack, "lightbox_rejected_total", reason="image_undecodable") == before + 1


def test_names_that_callers_invent_make_no_series(observed_stack: Stack) -> None:
    observed_stack.invoke(b"{}", X_Amzn_SageMaker_Custom_Attributes="tfs-model-name=invented")
    observed_stack.invoke(b"{}", path="/invented")
    observed_stack.invoke(b"{}", path="/endpoints/invented/invocations")
    text = requests.get(f"{observed_stack.url}/metrics", timeout=PATIENCE).text
    assert "invented" not in text
    assert 'route="unmatched"' in text
    assert 'route="/endpoints/<name>/invocations"' in text


def test_the_supervisor_shows_readiness_and_the_models_states(observed_stack: Stack) -> None:
    assert value(observed_stack, "lightbox_ready") == 1
    assert value(observed_stack, "lightbox_model_versions", model="constant", state="AVAILABLE") == 1


def test_counts_survive_workers_and_files_do_not_grow(observed_stack: Stack) -> None:
    assert observed_stack.invoke(IMAGE, Content_Type="image/png").status_code == 200
    for _ in range(3):
        before, files = value(observed_stack, "lightbox_requests_total"), metric_files(observed_stack)
        starts, there = value(observed_stack, "lightbox_worker_starts_total"), workers(observed_stack)
        there[0].send_signal(signal.SIGKILL)
        assert any(value(observed_stack, "lightbox_worker_starts_total") == starts + 1 for _ in poll())
        assert value(observed_stack, "lightbox_requests_total") == before
        assert observed_stack.invoke(IMAGE, Content_Type="image/png").status_code == 200
        assert value(observed_stack, "lightbox_requests_total") == before + 1
        assert len(metric_files(observed_stack)) <= max(len(files), 4 * len(there))


def test_restarted_processes_are_counted(observed_stack: Stack) -> None:
    before = value(observed_stack, "lightbox_child_restarts_total", process="nginx")
    master = observed_stack.processes("nginx: master")[0]
    workers_of_it = master.children()
    master.kill()
    # Workers finish their accepted requests. The last request of a worker may be cut off.
    assert any(not any(map(lives, (master, *workers_of_it))) for _ in poll())
    assert any(observed_stack.processes("nginx: master") and observed_stack.ping() == 200 for _ in poll())
    assert any(value(observed_stack, "lightbox_child_restarts_total", process="nginx") == before + 1 for _ in poll())


def test_a_host_has_the_port_alone(observed_stack: Stack) -> None:
    assert f"port {observed_stack.port} on 127.0.0.1: HTTP for callers" in observed_stack.log
    assert f"every user of this machine may use port {observed_stack.port}" in observed_stack.log
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", observed_stack.port), PATIENCE):
        pass


def test_processes_are_measured_by_name(observed_stack: Stack) -> None:
    assert value(observed_stack, "lightbox_build_info", version=__version__) == 1
    for process in ("lightbox", "nginx", "gunicorn", "model_server"):
        assert value(observed_stack, "lightbox_process_resident_memory_bytes", process=process) > 1e6
    before = value(observed_stack, "lightbox_process_cpu_seconds_total", process="gunicorn")
    for _ in poll():
        observed_stack.invoke(IMAGE)
        if value(observed_stack, "lightbox_process_cpu_seconds_total", process="gunicorn") > before > 0:
            break
    else:
        raise AssertionError("its time does not grow")


def test_processes_stay_small(observed_stack: Stack) -> None:
    for _ in range(20):
        observed_stack.invoke(IMAGE, Content_Type="image/png")
    value(observed_stack, "lightbox_ready")
    assert max(map(rss_mb, workers(observed_stack))) < MOST_MB
    assert rss_mb(psutil.Process(observed_stack.process.pid)) < MOST_MB


def test_every_json_line_is_an_object_and_each_request_has_one(observed_stack: Stack) -> None:
    observed_stack.invoke(IMAGE, Content_Type="image/png", X_Amzn_RequestId="seen-1")
    (line,) = lines_of(observed_stack, "seen-1")
    assert (line["route"], line["model"], line["transport"]) == ("/invocations", "constant", "local")
    assert (line["status"], line["bytes_in"]) == (200, len(IMAGE))
    times = [line[f"{stage}_ms"] for stage in ("decode", "preprocess", "predict", "total")]
    assert all(isinstance(time, float) and time > 0 for time in times)
    assert {json.loads(other)["process"] for other in observed_stack.log.splitlines()} >= {
        "lightbox",
        "gunicorn",
        "worker",
    }


def test_ping_and_metrics_are_silent(observed_stack: Stack) -> None:
    observed_stack.ping()
    observed_stack.invoke(IMAGE, Content_Type="image/png")
    assert not {line["route"] for line in request_lines(observed_stack)} & {"/ping", "/metrics"}


@pytest.mark.extended
def test_text_lines_cannot_be_forged(models: Path, tmp_path: Path) -> None:
    code = models / "constant" / "code"
    code.mkdir()
    handler = "import logging\ndef input_handler(data, context):\n    text = data.read().decode()\n"
    handler += "    logging.getLogger('mine').warning(text)\n    print(text)\n    raise ValueError(text)\n"
    (code / "inference.py").write_text(handler + "def output_handler(data, context):\n    return b'', 'text/plain'\n")
    try:
        with running(models, tmp_path, LIGHTBOX_METRICS="off") as observed_stack:
            forged = "a\n[request] request_id=forged\r[request] x\x1b[2K\u2028[request] y"
            assert observed_stack.invoke(forged.encode(), Content_Type="text/plain").status_code == 500
            assert observed_stack.invoke(b"", path="/%0a[request]%20forged").status_code == 404
            assert requests.get(f"{observed_stack.url}/metrics", timeout=PATIENCE).status_code == 404
            observed_stack.stop()
        ours = [line for line in without_times(observed_stack.log).splitlines() if line.startswith("[request]")]
        assert len(ours) == 3, ours
        assert "path=/\\x0a[request]%20forged" in ours[1]
        assert all(line.isprintable() for line in observed_stack.log.splitlines())
        assert metric_files(observed_stack) == set()
    finally:
        (code / "inference.py").unlink()
        code.rmdir()


@pytest.mark.extended
def test_a_callers_trace_goes_through_to_the_model_call(models: Path, tmp_path: Path) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with (
        receiving() as receiver,
        running(
            models, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_BSP_SCHEDULE_DELAY="100"
        ) as observed_stack,
    ):
        assert (
            observed_stack.invoke(IMAGE, Content_Type="image/png", traceparent=f"00-{trace}-{parent}-01").status_code
            == 200
        )
        assert any("POST /invocations" in receiver.of_trace(trace) for _ in poll())
        spans = receiver.of_trace(trace)
        assert spans["POST /invocations"].parent_span_id.hex() == parent
        assert {"decode", "preprocess", "predict", "postprocess"} <= spans.keys()
        assert spans["predict"].parent_span_id == spans["POST /invocations"].span_id
        assert receiver.services == {"lightbox"}
        assert max(map(rss_mb, workers(observed_stack))) < MOST_MB
