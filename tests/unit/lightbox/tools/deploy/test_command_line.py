"""lightbox deploy on the command line: every request passes botocore's model, and errors are sentences."""

from __future__ import annotations

import pytest

from lightbox.cli import main
from lightbox.tools.deploy import steps
from support.deployment import IMAGE, REGION, ROLE
from support.stack import REPOSITORY

COMMON = ["--image", IMAGE, "--role", ROLE]
COMMANDS = {
    "real-time": ["endpoint", "digits", *COMMON, "--scale-to", "4", "--env", "LIGHTBOX_TRANSPORT=rest"],
    "serverless": ["endpoint", "digits", *COMMON, "--serverless", "--memory-mb", "3072"],
    "asynchronous": [
        *["endpoint", "digits", *COMMON, "--asynchronous", "--output", "s3://b/answers"],
        *["--scale-from", "0", "--scale-to", "4", "--scale-target", "5"],
    ],
    "blue-green": ["update", "digits", *COMMON],
    "rolling": ["update", "digits", *COMMON, "--way", "rolling", "--step", "25"],
    "serverless update": ["update", "digits", *COMMON, "--serverless"],
    "batch": ["transform", "digits", *COMMON, "--source", "s3://b/in", "--output", "s3://b/answers"],
    "push": ["push", "--tag", "7"],
    "invoke": ["invoke", "digits", str(REPOSITORY / "README.md"), "--attributes", "tfs-model-name=digits"],
    "invoke from s3": ["invoke", "digits", "s3://b/in/photo.jpg"],
    "delete": ["delete", "digits"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_dry_run_prints_requests_that_botocore_accepts(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", lambda *_: pytest.fail("a request was sent"))
    assert main(["deploy", *command, "--region", REGION, "--dry-run"]) == 0
    assert "\n-- " in f"\n{capsys.readouterr().out}"


def test_a_dry_run_shows_what_wakes_an_asynchronous_endpoint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", *COMMANDS["asynchronous"], "--region", REGION, "--dry-run"]) == 0
    said = capsys.readouterr().out
    for words in ("HasBacklogWithoutCapacity", "StepScaling", "ApproximateBacklogSizePerInstance"):
        assert words in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--role", "short"], "ExecutionRoleArn"),
        (["--startup-seconds", "4000"], "3600 is the most"),
        (["--serverless", "--concurrency", "500"], "MaxConcurrency is 500"),
        (["--asynchronous"], "needs --output"),
        (["--env", "NAME"], "NAME=VALUE"),
    ],
)
def test_objections_are_sentences(changes: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "endpoint", "digits", *COMMON, *changes, "--region", REGION, "--dry-run"]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said


def test_an_interruption_says_what_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "deploy", interrupted)
    assert main(["deploy", "endpoint", "digits", *COMMON, "--region", REGION]) == 130
    assert "the same command" in capsys.readouterr().err


def test_delete_asks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "no")
    assert main(["deploy", "delete", "digits", "--region", REGION]) == 1
    assert "nothing was deleted" in capsys.readouterr().err


def test_a_dry_run_of_delete_says_that_nothing_was_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy", "delete", "digits", "--region", REGION, "--dry-run"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("== ")]
    assert len(said) == 2
    assert all(line.endswith("would be deleted") for line in said)
