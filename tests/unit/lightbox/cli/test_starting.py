"""Invalid starts end at once, with an error that names the setting or the path, and leave nothing behind.

``serve`` and ``check`` refuse before they start any process, so they run in the test's own process.
tests/e2e/test_refused_starts.py has what only processes show.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lightbox import cli
from lightbox.base.telemetry import logs
from lightbox.cli import starting
from lightbox.supervisor.starting import start_checks
from lightbox.supervisor.supervisor import STOP_SIGNALS
from lightbox.tools.harness.ports import free_ports
from support.certificates import write_pair
from support.finders import write_finder
from support.log_lines import without_times
from support.model_files import FILES, write_dense_as, write_means
from support.models import copy_golden
from support.s3 import serving, universal
from support.stack import free_port

from ..conftest import AsIfStarted

Refuse = Callable[..., str]


@pytest.fixture
def signals_as_they_were() -> Iterator[None]:
    """Restore the stop signals for the next tests, because ``serve`` blocks them."""
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def refuse(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_if_started: AsIfStarted,
    signals_as_they_were: None,
) -> Refuse:
    """Start with an environment, expect a refusal, and return the output."""

    def started(*_: object) -> None:
        raise AssertionError("it was not refused")

    monkeypatch.setattr(starting, "Supervisor", started)

    def refuse(**environ: str) -> str:
        tmp = tmp_path / "tmp"
        tmp.mkdir(exist_ok=True)
        own = {
            "TMPDIR": str(tmp),
            "SAGEMAKER_BIND_TO_PORT": str(free_port()),
            "LIGHTBOX_MODEL_SERVER": "embedded",
        }
        as_if_started(own | environ)
        assert cli.main(["serve"]) == 1
        said = without_times(capsys.readouterr().err)
        assert said.startswith("[lightbox] cannot start:\n")
        assert "Traceback" not in said
        assert cli.main(["check"]) == 1
        assert without_times(capsys.readouterr().err) == said, "check and serve refuse with the same sentences"
        assert not list(tmp.iterdir()), "the run directory was left behind"
        return said

    return refuse


@pytest.fixture
def models(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    return tmp_path / "models"


def test_wrong_settings_do_not_hide_wrong_models(refuse: Refuse, models: Path) -> None:
    low = free_ports(2)
    said = refuse(
        LIGHTBOX_MODEL_DIR=str(models),
        LIGHTBOX_SCALING="loud",
        LIGHTBOX_SCALLING="tf",
        SAGEMAKER_TFS_DEFAULT_MODEL_NAME="nobody",
        SAGEMAKER_TFS_INSTANCE_COUNT="3",
        SAGEMAKER_SAFE_PORT_RANGE=f"{low}-{low + 1}",
    )
    lines = [line.split(":")[0] for line in said.splitlines() if line.startswith(("LIGHTBOX_", "SAGEMAKER_"))]
    assert lines == [
        "LIGHTBOX_SCALLING",
        "LIGHTBOX_SCALING",
        "SAGEMAKER_TFS_INSTANCE_COUNT",
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME",
    ]
    assert "did you mean LIGHTBOX_SCALING?" in said


def test_every_wrong_model_is_named(refuse: Refuse, models: Path) -> None:
    said = refuse(LIGHTBOX_MODEL_DIR=str(bad_options(corrupt(models))))
    assert str(models / "broken/1") in said
    assert str(models / "image_mean/code/lightbox.json") in said


def test_every_wrong_file_of_tls_is_named(refuse: Refuse, models: Path, tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "tls", (b"no certificate", b"no key"))
    said = refuse(LIGHTBOX_MODEL_DIR=str(models), LIGHTBOX_TLS_CERT=str(folder), LIGHTBOX_TLS_CLIENT_CA="/nowhere")
    lines = [line.split(":")[0] for line in said.splitlines()[1:]]
    assert lines == ["LIGHTBOX_TLS_CLIENT_CA", "LIGHTBOX_TLS_CERT", "LIGHTBOX_TLS_KEY"]


def missing(models: Path) -> Path:
    return models / "nowhere"


def empty(models: Path) -> Path:
    (models / "empty").mkdir()
    return models / "empty"


def corrupt(models: Path) -> Path:
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "1" / "saved_model.pb").write_bytes(b"garbage" * 10)
    return models


def hollow(models: Path) -> Path:
    """A single model whose versions contain no SavedModel."""
    (models / "alone" / "broken" / "1").mkdir(parents=True)
    return models / "alone"


def silent(models: Path) -> Path:
    """A SavedModel with a graph and without a signature."""
    (models / "silent" / "1").mkdir(parents=True)
    (models / "silent" / "1" / "saved_model.pb").write_bytes(b"\x12\x09\x0a\x07\x22\x05serve")
    return models


def bad_options(models: Path) -> Path:
    (models / "image_mean" / "code").mkdir()
    (models / "image_mean" / "code" / "lightbox.json").write_text('{"scaling": "loud"}')
    return models


def bad_labels(models: Path) -> Path:
    (models / "image_mean" / "code").mkdir()
    (models / "image_mean" / "code" / "lightbox.json").write_text('{"labels": "gone.txt"}')
    return models


def code_beside_the_models(models: Path) -> Path:
    (models / "inference.py").write_text("def handler(data, context): ...")
    return models


def code_in_a_version(models: Path) -> Path:
    (models / "image_mean" / "1" / "inference.py").write_text("def handler(data, context): ...")
    return models


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (missing, "nowhere"),
        (empty, "empty"),
        (hollow, "alone/broken/1"),
        (silent, "silent/1/saved_model.pb has no usable signature"),
        (bad_options, "image_mean/code/lightbox.json"),
    ],
)
def test_models_that_cannot_be_served(refuse: Refuse, models: Path, spoil: Callable[[Path], Path], named: str) -> None:
    said = refuse(LIGHTBOX_MODEL_DIR=str(spoil(models)))
    assert str(models / named) in said


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (code_beside_the_models, "move it to {models}/code/inference.py"),
        (code_in_a_version, "move it to {models}/image_mean/code/inference.py"),
        (bad_labels, "labels: there is no file"),
    ],
)
def test_code_that_cannot_be_served(refuse: Refuse, models: Path, spoil: Callable[[Path], Path], sentence: str) -> None:
    said = refuse(LIGHTBOX_MODEL_DIR=str(spoil(models)))
    assert sentence.format(models=models) in said.splitlines()[-1], "the sentence comes last"


def test_an_unknown_default_model(refuse: Refuse, models: Path) -> None:
    said = refuse(LIGHTBOX_MODEL_DIR=str(models), SAGEMAKER_TFS_DEFAULT_MODEL_NAME="nobody")
    assert "SAGEMAKER_TFS_DEFAULT_MODEL_NAME" in said
    assert "image_mean" in said


@pytest.mark.parametrize(
    ("variable", "whose"),
    [("SAGEMAKER_BIND_TO_PORT", ""), ("SAGEMAKER_SAFE_PORT_RANGE", ", for gRPC of model server 0,")],
)
def test_a_taken_port(refuse: Refuse, models: Path, variable: str, whose: str) -> None:
    port = free_ports(10)
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))
        other.listen()
        value = str(port) if variable.endswith("PORT") else f"{port}-{port + 5}"
        said = refuse(**{"LIGHTBOX_MODEL_DIR": str(models), "SAGEMAKER_MULTI_MODEL": "true", variable: value})
    assert f"{variable}: port {port}{whose} is taken by another process" in said


@pytest.mark.parametrize(("variable", "more"), [("AIP_HTTP_PORT", {}), ("PORT", {"K_SERVICE": "photos"})])
def test_a_taken_port_of_another_platform(refuse: Refuse, models: Path, variable: str, more: dict[str, str]) -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        own = {"SAGEMAKER_BIND_TO_PORT": "", variable: str(port), "LIGHTBOX_MODEL_DIR": str(models)}
        said = refuse(**own | more)
    assert f"{variable}: port {port} is taken by another process" in said


def test_a_bucket_of_vertex_ai_is_no_folder(refuse: Refuse) -> None:
    _, problem = refuse(AIP_STORAGE_URI="gs://bucket/model").strip().splitlines()
    assert problem.startswith("AIP_STORAGE_URI: expected a folder, as Lightbox reads nothing from Cloud Storage: put ")
    assert problem.endswith("set LIGHTBOX_MODEL_DIR, got 'gs://bucket/model'")


def test_a_model_server_that_is_not_there(refuse: Refuse, models: Path) -> None:
    said = refuse(
        LIGHTBOX_MODEL_DIR=str(models),
        LIGHTBOX_MODEL_SERVER="tensorflow_model_server",
        PATH="/usr/bin:/bin:/usr/sbin",
    )
    assert "LIGHTBOX_MODEL_SERVER" in said


@pytest.mark.parametrize("file", FILES)
def test_a_real_model_server_opens_only_saved_models(
    refuse: Refuse, tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (binary := tmp_path / "tensorflow_model_server").write_text("#!/bin/sh\nexit 1\n")
    binary.chmod(0o755)
    write_dense_as(tmp_path / "models" / "m" / "1" / file)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environ = {"LIGHTBOX_MODEL_DIR": str(tmp_path / "models"), "PATH": path, "LIGHTBOX_MODEL_SERVER": "auto"}
    hint = "which tensorflow_model_server does not open; set LIGHTBOX_MODEL_SERVER=embedded"
    assert refuse(**environ).endswith(f"{hint}\n")
    monkeypatch.setattr(start_checks, "find_spec", lambda name: None)
    install = "which needs openvino: pip install 'lightbox-serve[openvino]'; of the images, --target openvino"
    assert f"{hint}, {install} and --target embedded have it" in refuse(**environ)


@pytest.mark.usefixtures("signals_as_they_were")
def test_a_refusal_is_one_json_object_like_other_lines(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_if_started: AsIfStarted,
) -> None:
    monkeypatch.setattr(logs._Form, "as_json", False)  # restored after the test
    wrong = {"LIGHTBOX_LOG_FORMAT": "json", "LIGHTBOX_MODEL_DIR": str(tmp_path / "nowhere"), "LIGHTBOX_BOGUS": "1"}
    as_if_started(wrong | {"TMPDIR": str(tmp_path), "SAGEMAKER_BIND_TO_PORT": str(free_port())})
    assert cli.main(["serve"]) == 1
    entry = json.loads(capsys.readouterr().err)
    assert (entry["process"], entry["message"].count("\n")) == ("lightbox", 1)
    assert entry["message"].startswith("cannot start: LIGHTBOX_BOGUS: there is no such setting")


@pytest.mark.parametrize("folder", ["/proc", "/proc/nowhere", "/etc/hostname"])
def test_no_folder_to_write_to(refuse: Refuse, models: Path, folder: str) -> None:
    said = refuse(LIGHTBOX_MODEL_DIR=str(models), TMPDIR=folder)
    assert f"TMPDIR: Lightbox needs a writable folder, and {folder} is not one" in said


@pytest.mark.parametrize(("bucket", "prefix"), [("models", "nowhere/"), ("none", "team/code/")])
def test_code_from_s3_that_cannot_be_had(refuse: Refuse, models: Path, bucket: str, prefix: str) -> None:
    with serving() as s3:
        said = refuse(**s3 | universal(bucket, prefix) | {"LIGHTBOX_MODEL_DIR": str(models)})
    assert f"s3://{bucket}/{prefix}" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            '{"labels": ["a", "b"]}',
            "expected a label for each of the 10 classes of the output probabilities, got 2; the model is 'digits'",
        ),
        ('{"labels": "names.txt"}', "labels: there is no file"),
        ('{"labels": "names.json"}', "names.json: expected a JSON list of names, or an object"),
        ('{"scale": "tf"}', "scale: there is no such option; did you mean scaling?"),
        ('{"colour": "red"}', "colour: there is no such option; expected recipe, preset,"),
        ('{"resize": "cubic"}', "resize: expected 'bicubic', 'bilinear'"),
        ('{"mean": [1, 2, 3, 4]}', "mean: expected 3 numbers, one for each channel of the input"),
        ('{"pad": 0}', "pad: works only with fit 'letterbox', got fit 'stretch'"),
        (
            '{"detections": "ultralytics"}',
            "detections: expected one output of [N, 4+C, A] or [N, K, 6] for 'ultralytics'; the model gives",
        ),
        ('{"preset": "yolo"}', "preset: expected 'keras-mobilenet', 'keras-resnet', 'torchvision'"),
    ],
)
def test_options_that_a_model_cannot_follow(
    refuse: Refuse, sample_models: Path, tmp_path: Path, options: str, words: str
) -> None:
    shutil.copytree(sample_models / "digits", tmp_path / "models" / "digits")
    code = tmp_path / "models" / "digits" / "code"
    (code / "lightbox.json").write_text(options)
    (code / "names.json").write_text('{"one": "cat"}')
    assert words in refuse(LIGHTBOX_MODEL_DIR=str(tmp_path / "models"))


@pytest.mark.parametrize("options", ['{"fit": "letterbox"}', '{"preset": "ultralytics"}', '{"preset": "timm"}'])
@pytest.mark.parametrize("by", ["file", "variable"])
def test_a_fit_for_an_input_without_a_size(refuse: Refuse, tmp_path: Path, options: str, by: str) -> None:
    write_means(tmp_path / "models" / "means" / "1" / "model.xml", -1, -1)
    code = tmp_path / "models" / "means" / "code"
    code.mkdir()
    (code / "lightbox.json").write_text(options if by == "file" else "{}")
    variable = {"LIGHTBOX_OPTIONS": options} if by == "variable" else {}
    said = refuse(LIGHTBOX_MODEL_DIR=str(tmp_path / "models"), **variable)
    assert "needs a fixed size, but the input x has none; set image_size, such as 640x640" in said
    assert ("LIGHTBOX_OPTIONS: " in said) == (by == "variable")


def test_objects_are_named_by_as_many_labels(refuse: Refuse, tmp_path: Path) -> None:
    write_finder(tmp_path / "models" / "finder" / "1" / "model.xml", "ultralytics")
    code = tmp_path / "models" / "finder" / "code"
    code.mkdir()
    (code / "lightbox.json").write_text('{"detections": "ultralytics", "labels": ["red"]}')
    assert "detections: expected a label for each of the 2 classes, got 1" in refuse(
        LIGHTBOX_MODEL_DIR=str(tmp_path / "models")
    )


def test_a_temporary_folder_without_space(refuse: Refuse, models: Path, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        said = refuse(LIGHTBOX_MODEL_DIR=str(models))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert f"TMPDIR: {tmp_path / 'tmp'} cannot be written to: File too large" in said


def test_tracing_without_its_packages(refuse: Refuse, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightbox.features.tracing.PACKAGES", ("no_such_package.sdk",))
    said = refuse(LIGHTBOX_MODEL_DIR=str(models), OTEL_EXPORTER_OTLP_ENDPOINT="http://localhost:4318")  # unopened
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set, but the OpenTelemetry packages are not installed" in said
