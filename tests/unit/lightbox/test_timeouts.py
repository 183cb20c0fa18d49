"""The time limit of a request, and longer timeouts in each outer layer. docs/handlers.md has the rule."""

from __future__ import annotations

import re
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from lightbox.base.request_context import RequestContext
from lightbox.base.run_dir import RunDir
from lightbox.features.multi_model import MultiModel
from lightbox.model.options import ModelOptions
from lightbox.model.plan import ModelServerAddress
from lightbox.nginx.configuration import render
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.commands import gunicorn_command, model_server_flags
from support.fake_transport import FakeTransport
from support.fakes import channel_means, fake_app, mean_model
from support.parameters import each

LIMIT, GUNICORN, NGINX = (
    "LIGHTBOX_REQUEST_TIMEOUT_SECONDS",
    "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS",
    "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS",
)
BODY = b'{"instances": [[[[1, 2, 3]]]]}'
OWN = "def postprocess(outputs, request): return {}"
AWS = "def handler(data, context): return '{}', None"
PAIR = "def input_handler(data, context): return data\ndef output_handler(response, context): return '{}', None"

DEADLINES = [
    ({}, 30, 60),
    ({LIMIT: "7"}, 7, 7),
    ({LIMIT: "90"}, 90, 90),
    ({GUNICORN: "30"}, 30, 30),
    ({GUNICORN: "120", NGINX: "60"}, 120, 120),
    ({NGINX: "60"}, 30, 59),
    ({NGINX: "300"}, 30, 299),
    ({NGINX: "10"}, 9, 9),
    ({NGINX: "1"}, 0.5, 0.5),
    ({"SAGEMAKER_BATCH": "true"}, 600, 600),
    ({"SAGEMAKER_BATCH": "true", NGINX: "900"}, 600, 899),
]
"""Settings, the seconds that the built-in handling has, and those that an inference.py has."""


@each(("environ", "built_in", "handler"), DEADLINES)
def test_a_handler_has_60_seconds_unless_a_timeout_is_set(
    environ: dict[str, str], built_in: float, handler: float
) -> None:
    settings = load_settings(environ)
    assert (settings.deadline_seconds, settings.handler_seconds) == (built_in, handler)


@pytest.mark.parametrize(
    ("source", "allowed"), [(None, 30), (OWN, 60), (PAIR, 60)], ids=["built-in", "postprocess", "pair"]
)
def test_the_model_may_take_what_its_request_has(tmp_path: Path, source: str | None, allowed: float) -> None:
    transport = FakeTransport()
    transport.serve(mean_model(side=1), channel_means)
    if source:
        (tmp_path / "inference.py").write_text(source)
    client = fake_app(transport, {"mean": ModelOptions()}, {LIMIT: ""}, tmp_path).test_client()
    assert client.post("/invocations", data=BODY).status_code == 200
    assert transport.allowed == [allowed]


@pytest.mark.parametrize(
    ("source", "waited", "status"),
    [(None, 31, 504), (OWN, 31, 200), (OWN, 61, 504), (AWS, 31, 200), (AWS, 61, 504)],
    ids=["built-in", "postprocess", "postprocess too late", "handler", "handler too late"],
)
def test_a_request_is_begun_while_it_has_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None, waited: float, status: int
) -> None:
    transport = FakeTransport()
    transport.serve(mean_model(side=1), channel_means)
    if source:
        (tmp_path / "inference.py").write_text(source)
    client = fake_app(transport, {"mean": ModelOptions()}, {LIMIT: ""}, tmp_path).test_client()
    now = time.time()
    received = {"X-Lightbox-Received": str(now - waited)}
    monkeypatch.setattr(time, "time", lambda: now)
    monkeypatch.setattr(RequestContext, "elapsed", lambda _: 0.0)
    assert client.post("/invocations", data=BODY, headers=received).status_code == status


@each("environ", [environ for environ, *_ in DEADLINES])
def test_gunicorn_waits_longer_than_a_request_may_take(environ: dict[str, str]) -> None:
    settings = load_settings(environ)
    with RunDir() as run_dir:
        command = gunicorn_command(settings, run_dir.path / "plan.json", "unix:a", run_dir)
    assert _number("--timeout=", command) > settings.handler_seconds


@each("environ", [environ for environ, *_ in DEADLINES])
def test_the_model_servers_rest_api_waits_longer_than_a_request_may_take(environ: dict[str, str]) -> None:
    settings = load_settings(environ)
    address = ModelServerAddress(grpc_socket=Path("/run/x.sock"), grpc_port=1, rest_port=2)
    flags = model_server_flags(settings, address, Path("/run"), settings.slots)
    assert _number("--rest_api_timeout_in_ms=", flags) > 1000 * settings.handler_seconds


@each("environ", [environ for environ, *_ in DEADLINES])
def test_nginx_waits_longest(environ: dict[str, str]) -> None:
    settings = load_settings(environ)
    loads = MultiModel().nginx(Mock())
    text = render(settings, Path("/run"), {"SIDECAR": "unix:a", "HEALTH": "unix:b"}, 1 << 28, parts=[loads])
    read, load = sorted(map(float, re.findall(r"proxy_read_timeout (\d+)s;", text)))
    assert read > settings.handler_seconds
    assert load >= settings.load_seconds


@each(
    ("environ", "seconds"),
    [({}, 60), ({LIMIT: "90"}, 90), ({LIMIT: "5"}, 60), ({"SAGEMAKER_TFS_WAIT_TIME_SECONDS": "20"}, 20)],
)
def test_a_load_may_take_the_wait_time(environ: dict[str, str], seconds: float) -> None:
    assert load_settings(environ).load_seconds == seconds


def _number(name: str, arguments: list[str]) -> float:
    return next(float(argument.removeprefix(name)) for argument in arguments if argument.startswith(name))
