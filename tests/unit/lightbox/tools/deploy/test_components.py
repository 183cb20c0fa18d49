"""Inference components and the other ways to call an endpoint, against moto and fakes for its missing parts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import boto3
import click
import pytest

from lightbox.tools.deploy import steps
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.components import MOST_ENTRIES, Size
from lightbox.tools.deploy.deletion import delete
from lightbox.tools.deploy.deployment import Kind, Plan
from lightbox.tools.deploy.scaling import Scaling
from lightbox.tools.deploy.steps import Rollout, Target
from support.deployment import IMAGE, NO_MODEL, REGION, ROLE, InferenceComponents, plan, typed
from support.stack import REPOSITORY

pytestmark = pytest.mark.extended

SIZE = Size(cores=2, memory_mb=3072, copies=2)


def component(name: str = "digits", **changes: Any) -> Plan:
    return plan(**{"endpoint": "shared", "kind": Kind.COMPONENTS, "component": name, **changes})


def test_two_models_share_an_endpoint(aws: Aws) -> None:
    fake = InferenceComponents(aws)
    pets = component("pets", model_data="s3://b/pets.tar.gz")
    for wanted in (component(), pets, component()):
        steps.deploy(aws, wanted, None, pause=0, size=SIZE)
    assert list(fake.there) == ["shared-digits", "shared-pets"]
    assert fake.asked.count("Create") == 2 and "Update" not in fake.asked
    request = fake.there["shared-pets"]["request"]
    assert request["Specification"]["ModelName"] == pets.model_name
    needed = request["Specification"]["ComputeResourceRequirements"]
    assert needed == {"NumberOfCpuCoresRequired": 2, "MinMemoryRequiredInMb": 3072, "MaxMemoryRequiredInMb": 3072}
    assert request["RuntimeConfig"] == {"CopyCount": 2}
    sagemaker = boto3.client("sagemaker", REGION)
    (config,) = sagemaker.list_endpoint_configs()["EndpointConfigs"]
    described = aws.call("sagemaker", "describe_endpoint_config", EndpointConfigName=config["EndpointConfigName"])
    assert "ModelName" not in described["ProductionVariants"][0]


def test_another_model_takes_the_place_of_a_components(aws: Aws) -> None:
    fake = InferenceComponents(aws)
    newer = component(model_data="s3://b/newer.tar.gz")
    for wanted in (component(), newer):
        steps.deploy(aws, wanted, None, pause=0, size=SIZE)
    assert fake.there["shared-digits"]["request"]["Specification"]["ModelName"] == newer.model_name
    assert fake.asked.count("Update") == 1


def test_a_component_that_fails_says_why(aws: Aws) -> None:
    InferenceComponents(aws, reason="no room on the machines")
    with pytest.raises(Refused, match="component shared-digits is Failed: no room on the machines"):
        steps.deploy(aws, component(), None, pause=0, size=SIZE)


def test_delete_takes_the_components_first(aws: Aws) -> None:
    fake = InferenceComponents(aws)
    steps.deploy(aws, component(), None, pause=0, size=SIZE)
    delete(aws, "shared", pause=0)
    sagemaker = boto3.client("sagemaker", REGION)
    assert fake.there == {}
    assert sagemaker.list_endpoints()["Endpoints"] == sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
    assert [model["ModelName"] for model in sagemaker.list_models()["Models"]] == [NO_MODEL]


def test_what_a_component_cannot_be_is_refused_before_anything_is_made(aws: Aws) -> None:
    many = component(environment={f"LIGHTBOX_{number}": "1" for number in range(MOST_ENTRIES + 1)})
    with pytest.raises(Refused, match="at most 16 variables, got 17"):
        steps.deploy(aws, many, None, pause=0)
    with pytest.raises(Refused, match="with --component give --copies"):
        steps.deploy(aws, component(), Scaling(1, 4, 1000), pause=0)
    with pytest.raises(Refused, match="update takes no components"):
        steps.update(aws, component(), Rollout(), pause=0)
    with pytest.raises(Refused, match="the endpoint's name included"):
        component("a_b")
    assert boto3.client("sagemaker", REGION).list_models()["Models"] == []


def test_the_page_needs_no_more_variables_than_a_component_may_have() -> None:
    page = (REPOSITORY / "docs" / "production.md").read_text()
    (example,) = re.findall(r"lightbox deploy (endpoint shared --component .*?)\n```", page, re.DOTALL)
    words = shlex.split(example.replace("\\\n", " ").replace("$image", IMAGE).replace("$model", "s3://b/m.tar.gz"))
    planned = typed(*[ROLE if word == "$role" else word for word in words])
    assert planned.kind is Kind.COMPONENTS
    assert {"LIGHTBOX_DRAIN_SECONDS", "LIGHTBOX_MAX_BODY_MB"} <= planned.environment.keys()
    assert len(planned.environment) <= MOST_ENTRIES


@pytest.mark.parametrize(
    ("to", "header", "value"),
    [
        (Target(component="digits"), "X-Amzn-SageMaker-Inference-Component", "shared-digits"),
        (Target(container="second"), "X-Amzn-SageMaker-Target-Container-Hostname", "second"),
    ],
)
def test_a_part_of_an_endpoint_is_asked(aws: Aws, tmp_path: Path, to: Target, header: str, value: str) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"bytes")
    asked: list[dict[str, Any]] = []
    events = aws.client("sagemaker-runtime").meta.events
    events.register("before-call.sagemaker-runtime.InvokeEndpoint", lambda params, **_: asked.append(params))
    assert b"".join(steps.invoke(aws, "shared", tmp_path / "photo.jpg", "image/jpeg", to)) == b"body"
    assert asked[0]["headers"][header] == value


def streamed(monkeypatch: pytest.MonkeyPatch, aws: Aws, folder: Path, *events: dict[str, Any]) -> list[bytes]:
    """Request a stream with these events: moto has no streams."""
    asked: list[str] = []

    def call(service: str, operation: str, **request: Any) -> dict[str, Any]:
        aws.check(service, operation, **request)
        asked.append(operation)
        return {"Body": iter(events)}

    monkeypatch.setattr(aws, "call", call)
    (folder / "photo.jpg").write_bytes(b"bytes")
    parts = list(steps.invoke(aws, "shared", folder / "photo.jpg", "image/jpeg", Target(streams=True)))
    assert asked == ["invoke_endpoint_with_response_stream"]
    return parts


def test_a_stream_comes_in_parts(monkeypatch: pytest.MonkeyPatch, aws: Aws, tmp_path: Path) -> None:
    events = [{"PayloadPart": {"Bytes": part}} for part in (b"one\n", b"two\n")]
    assert streamed(monkeypatch, aws, tmp_path, *events) == [b"one\n", b"two\n"]


def test_a_stream_that_ends_with_an_error_is_reported(
    monkeypatch: pytest.MonkeyPatch, aws: Aws, tmp_path: Path
) -> None:
    error = {"ModelStreamError": {"Message": "late", "ErrorCode": "StreamBroken"}}
    with pytest.raises(Refused, match=r"the stream ended early: .*StreamBroken"):
        streamed(monkeypatch, aws, tmp_path, error)


def test_serverless_and_a_component_exclude_each_other() -> None:
    words = ["endpoint", "shared", "--image", IMAGE, "--role", ROLE, "--component", "digits", "--serverless"]
    with pytest.raises(click.ClickException, match="an inference component is real-time"):
        typed(*words)
