"""``check`` prints the settings in shell syntax, and tries the user code as a start does."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from lightbox import cli
from lightbox.serving.settings_loading import load_settings, parts
from lightbox.tools.harness.ports import free_ports
from support import commands
from support.certificates import Authority, write_pair
from support.isolation import own_environ
from support.log_lines import without_times
from support.models import copy_golden
from support.stack import SERVE, free_port

from ..conftest import AsIfStarted


@pytest.fixture
def models(tmp_path: Path) -> Path:
    copy_golden("image_mean", tmp_path / "models" / "image_mean")
    return tmp_path / "models"


@pytest.mark.usefixtures("check_starts_no_server")
def test_check_says_what_a_start_would_stumble_over(
    as_if_started: AsIfStarted, capsys: pytest.CaptureFixture[str], models: Path
) -> None:
    own = {"SAGEMAKER_BIND_TO_PORT": str(free_port()), "LIGHTBOX_MODEL_DIR": str(models)}
    as_if_started(own)
    assert cli.main(["check"]) == 0
    assert f"LIGHTBOX_MODEL_DIR={models}" in capsys.readouterr().out
    with socket.socket() as other:  # for example a running Lightbox: check still prints the settings
        other.bind(("0.0.0.0", int(own["SAGEMAKER_BIND_TO_PORT"])))
        other.listen()
        as_if_started(own | {"LIGHTBOX_OPTIONS": '{"outputs": ["median"]}', "LIGHTBOX_SCALING": "tf"})
        assert cli.main(["check"]) == 1
    said = capsys.readouterr()
    assert f"LIGHTBOX_MODEL_DIR={models}" in said.out
    named = [line.split(":")[0] for line in said.err.splitlines()[1:]]
    assert named == ["SAGEMAKER_BIND_TO_PORT", "LIGHTBOX_OPTIONS", "LIGHTBOX_SCALING"]
    assert said.out.endswith("\n\nverdict: a start would be refused\n")


@pytest.mark.usefixtures("check_starts_no_server")
def test_check_prints_what_is_set_and_means_more_than_its_default(
    as_if_started: AsIfStarted, capsys: pytest.CaptureFixture[str], models: Path
) -> None:
    own = {"SAGEMAKER_BIND_TO_PORT": str(free_port()), "LIGHTBOX_MODEL_DIR": str(models)}
    as_if_started(own | {"LIGHTBOX_REQUEST_TIMEOUT_SECONDS": "30", "LIGHTBOX_DRAIN_SECONDS": "30"})
    assert cli.main(["check"]) == 0
    said = capsys.readouterr().out
    assert "\nLIGHTBOX_REQUEST_TIMEOUT_SECONDS=30" in said
    assert "LIGHTBOX_DRAIN_SECONDS" not in said


@pytest.mark.usefixtures("check_starts_no_server")
def test_check_shows_what_each_of_several_models_may_have(
    as_if_started: AsIfStarted, capsys: pytest.CaptureFixture[str], models: Path
) -> None:
    (models / "second").symlink_to("image_mean")
    own = {"SAGEMAKER_BIND_TO_PORT": str(free_port()), "LIGHTBOX_MODEL_DIR": str(models)}
    own |= {"SAGEMAKER_GUNICORN_WORKERS": "1", "SAGEMAKER_GUNICORN_THREADS": "6", "LIGHTBOX_MAX_WAITING": "4"}
    as_if_started(own | {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "second"})
    assert cli.main(["check"]) == 0
    shown = "each of 2 models has at most half of the 6 threads of each worker, and 10 of 20 requests"
    assert f"\nshares: {shown}" in capsys.readouterr().out


@pytest.mark.usefixtures("check_starts_no_server")
def test_check_shows_tls(
    as_if_started: AsIfStarted, capsys: pytest.CaptureFixture[str], models: Path, tmp_path: Path
) -> None:
    own = {"SAGEMAKER_BIND_TO_PORT": str(free_port()), "LIGHTBOX_MODEL_DIR": str(models)}
    as_if_started(own | {"LIGHTBOX_TLS_CERT": str(write_pair(tmp_path / "tls", Authority().issue(days=-1)))})
    assert cli.main(["check"]) == 0
    said = capsys.readouterr().out
    assert "\nTLS: the certificate of commonName=lightbox.test for localhost, 127.0.0.1, until 2" in said
    assert "\nwarning: LIGHTBOX_TLS_CERT: the certificate of commonName=lightbox.test" in said
    assert f"listening: port {own['SAGEMAKER_BIND_TO_PORT']} on all interfaces: HTTPS for callers" in said


@pytest.mark.usefixtures("check_starts_no_server")
def test_check_prints_settings_and_models(
    as_if_started: AsIfStarted, capsys: pytest.CaptureFixture[str], models: Path
) -> None:
    (models / "code").mkdir()
    (models / "code" / "inference.py").write_text("def handler(data, context): ...")
    own = {"SAGEMAKER_BIND_TO_PORT": str(free_port()), "LIGHTBOX_MODEL_SERVER": "embedded"}
    as_if_started(own | {"LIGHTBOX_MODEL_DIR": str(models), "LIGHTBOX_TRANSPORT": "rest"})
    assert cli.main(["check"]) == 0
    said = capsys.readouterr().out
    assert "LIGHTBOX_TRANSPORT=rest  # default: local,grpc,rest with the embedded model server, else grpc\n" in said
    assert "LIGHTBOX_DRAIN_SECONDS" not in said
    assert said.endswith("\n\nverdict: a start would serve\n")
    assert f"model: image_mean in {models}/image_mean (default)" in said
    assert f"its code: {models}/code/inference.py" in said
    assert re.search(r"^TensorFlow intra-op threads: (1|chosen by the model server)$", said, re.MULTILINE)
    assert "its signature serving_default: image (uint8 [-1,8,8,3]) -> mean (float32 [-1,3])" in said
    assert cli.main(["check", "--all"]) == 0
    everything = capsys.readouterr().out
    assert "\n# SAGEMAKER_TFS_INTRA_OP_PARALLELISM=0  " in everything, "set, it would leave it to TensorFlow"
    assert "\nLIGHTBOX_DRAIN_SECONDS=30.0  # s, default: 30\n" in everything


@pytest.mark.extended
def test_check_tries_the_code_as_a_start_does(
    as_if_started: AsIfStarted, capfd: pytest.CaptureFixture[str], models: Path, tmp_path: Path
) -> None:
    (models / "code").mkdir()
    (models / "code" / "requirements.txt").write_text("./no-such-wheel-1.0-py3-none-any.whl")
    (tmp_path / "tmp").mkdir()
    own = {"TMPDIR": str(tmp_path / "tmp"), "SAGEMAKER_BIND_TO_PORT": str(free_port()), "PIP_NO_INDEX": "1"}
    as_if_started(own | {"LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_MODEL_DIR": str(models)})
    assert cli.main(["check"]) == 1
    *_, head, said = without_times(capfd.readouterr().err).splitlines()
    assert head == "[lightbox] cannot start:"
    assert said.startswith(f"{models}/code/requirements.txt cannot be installed, pip")
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.extended
@pytest.mark.parametrize(
    "environ",
    [
        {"SAGEMAKER_SAFE_PORT_RANGE": "LOW-HIGH", "LIGHTBOX_OPTIONS": '{"image_size": 8, "outputs": ["mean"]}'},
        {"PREDICT_USING_GRPC": "false", "SAGEMAKER_BATCH": "true", "LIGHTBOX_REQUEST_TIMEOUT_SECONDS": "12.5"},
        {"LIGHTBOX_LABELS": "class names $HOME 'x'.txt", "SAGEMAKER_TFS_WAIT_TIME_SECONDS": "90"},
    ],
)
def test_a_shell_reads_the_settings_that_check_prints(
    as_if_started: AsIfStarted, models: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    (models / "code").mkdir()
    (models / "code" / "class names $HOME 'x'.txt").write_text("red\ngreen\nblue\n")
    low = free_ports(4)
    own = {name: value.replace("LOW", str(low)).replace("HIGH", str(low + 3)) for name, value in environ.items()}
    base = own_environ(tmp_path)
    own = {name: base[name] for name in ("SAGEMAKER_BIND_TO_PORT", "SAGEMAKER_SAFE_PORT_RANGE")} | own
    own |= {"LIGHTBOX_MODEL_SERVER": "embedded", "LIGHTBOX_MODEL_DIR": str(models)}

    def printed(script: str, environ: dict[str, str]) -> str:
        command = ["bash", "-ec", script, str(SERVE)]
        done = commands.run(command, env=base | environ)
        assert done.returncode == 0, done.stderr
        assert "request handling" not in done.stderr, "it starts nothing"
        return done.stdout

    settings = printed('"$0" check --settings', own)
    file = tmp_path / "lightbox.env"
    file.write_text(settings)
    assert printed(f'set -a; . {file}; exec "$0" check --settings', {}) == settings
    lines = printed(f"set -a; . {file}; env", {}).splitlines()
    fed = {name: value for name, between, value in (line.partition("=") for line in lines) if between}
    for part in parts():
        assert load_settings(fed).of(part) == load_settings(own).of(part)
    assert load_settings(fed).model_dump() == load_settings(own).model_dump()
    assert load_settings(fed).handler_seconds == load_settings(own).handler_seconds
