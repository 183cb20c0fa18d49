"""Endpoints with several containers, and with many models in one, against moto."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import click
import pytest

from lightbox.tools.deploy import requests, steps
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.deployment import Kind, Plan
from lightbox.tools.deploy.steps import Target
from support.deployment import IMAGE, REGION, ROLE, plan, typed

pytestmark = pytest.mark.extended

TWO = {"digits": "s3://b/digits.tar.gz", "pets": "s3://b/pets.tar.gz"}


def planned(*words: str, command: str = "endpoint") -> Plan:
    given = [command, "digits", "--image", IMAGE, "--role", ROLE, "--instance-type", "ml.c5.xlarge", *words]
    return typed(*given)


def made() -> dict[str, Any]:
    sagemaker = boto3.client("sagemaker", REGION)
    (model,) = sagemaker.list_models()["Models"]
    return dict(sagemaker.describe_model(ModelName=model["ModelName"]))


def test_containers_have_a_model_each_and_callers_name_one(aws: Aws) -> None:
    pairs = [word for name, url in TWO.items() for word in ("--container", f"{name}={url}")]
    wanted = planned(*pairs, "--env", "LIGHTBOX_ENGINE=auto")
    for _ in range(2):
        steps.deploy(aws, wanted, None, pause=0)
    assert made()["Containers"] == [
        {
            "Image": IMAGE,
            "Environment": {"LIGHTBOX_ENGINE": "auto"},
            "ContainerHostname": name,
            "ModelDataUrl": url,
        }
        for name, url in TWO.items()
    ]
    assert requests.model(wanted)["InferenceExecutionConfig"] == {"Mode": "Direct"}
    assert planned(*pairs, command="update").containers == TWO
    assert wanted.model_name != planned(*pairs[:3], "pets=s3://b/newer.tar.gz").model_name


def test_one_container_loads_what_is_asked_for(aws: Aws, tmp_path: Path) -> None:
    wanted = planned("--multi-model", "--model-data", "s3://b/models/")
    steps.deploy(aws, wanted, None, pause=0)
    container = made()["PrimaryContainer"]
    assert (container["Mode"], container["ModelDataUrl"]) == ("MultiModel", "s3://b/models/")
    assert wanted.model_name != plan(model_data="s3://b/models/").model_name
    (tmp_path / "photo.jpg").write_bytes(b"bytes")
    asked: list[dict[str, Any]] = []
    events = aws.client("sagemaker-runtime").meta.events
    events.register("before-call.sagemaker-runtime.InvokeEndpoint", lambda params, **_: asked.append(params))
    to = Target(model="pets.tar.gz")
    assert b"".join(steps.invoke(aws, "digits", tmp_path / "photo.jpg", "image/jpeg", to)) == b"body"
    assert asked[0]["headers"]["X-Amzn-SageMaker-Target-Model"] == "pets.tar.gz"
    with pytest.raises(Refused, match="no TargetModel for streams"):
        next(steps.invoke(aws, "digits", tmp_path / "photo.jpg", "image/jpeg", Target(model="a", streams=True)))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--container", "one=s3://b/1"], "expected 2 to 15 containers, got 1"),
        (["--container", "one=s3://b/1", "--container", "a_b=s3://b/2"], "'a_b': expected up to 63 letters"),
        (["--container", "one=s3://b/1", "--container", "one=s3://b/2"], "HOSTNAME=S3_URL, and one came twice"),
        (["--container", "one=s3://b/1", "--container", "two=b/2"], "two=b/2: expected s3://"),
        (["--container", "one"], "--container takes HOSTNAME=S3_URL, not one"),
        (["--env", "=1"], "--env takes NAME=VALUE, not =1"),
        (["--multi-model"], "expected --model-data s3://bucket/folder/, got None"),
        (["--multi-model", "--model-data", "s3://b/m.tar.gz"], "folder/, got s3://b/m.tar.gz"),
        (["--multi-model", "--model-data", "s3://b/m/", "--serverless"], "a real-time endpoint, got serverless"),
        (["--multi-model", "--model-data", "s3://b/m/", "--component", "digits"], "got components"),
    ],
)
def test_what_does_not_fit_together_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(click.ClickException, match=why):
        planned(*words)


def test_containers_and_one_archive_exclude_each_other() -> None:
    with pytest.raises(Refused, match="leave --model-data out"):
        plan(containers=TWO)
    with pytest.raises(Refused, match="--container: expected a real-time endpoint, got asynchronous"):
        plan(model_data=None, containers=TWO, kind=Kind.ASYNCHRONOUS, output="s3://b/out")
