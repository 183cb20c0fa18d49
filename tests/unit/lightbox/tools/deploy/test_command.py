"""lightbox deploy: stacks in moto's CloudFormation, and recorded sequences of events where moto has none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from lightbox.cli import main
from lightbox.tools.deploy.templates import with_environment
from support.deployment import GIVEN, Evaluation

# moto does not support newer ones.
WORDS = [f"{name}={value}" for name, value in GIVEN.items()] + ["InstanceType=ml.c5.xlarge"]
ID = "arn:aws:cloudformation:eu-central-1:123456789012:stack/digits/7"

pytestmark = pytest.mark.filterwarnings("ignore:Tried to parse:UserWarning")


@pytest.mark.extended
def test_a_stack_is_created_shown_and_deleted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sagemaker = boto3.client("sagemaker")
    assert main(["deploy", "create", "digits", *WORDS, "--env", "LIGHTBOX_ENGINE=auto"]) == 0
    assert "digits: CREATE_COMPLETE" in capsys.readouterr().out
    (model,) = sagemaker.list_models()["Models"]
    container = sagemaker.describe_model(ModelName=model["ModelName"])["PrimaryContainer"]
    assert container["Environment"] == {"LIGHTBOX_ENGINE": "auto"}
    assert container["ModelDataUrl"] == GIVEN["ModelData"]
    (endpoint,) = sagemaker.list_endpoints()["Endpoints"]
    assert endpoint["EndpointStatus"] == "InService"
    assert main(["deploy", "status", "digits"]) == 0
    said = capsys.readouterr().out
    assert "InstanceType=ml.c5.xlarge\n" in said and "digits: CREATE_COMPLETE" in said
    assert main(["deploy", "create", "digits", *WORDS]) == 1
    assert "already exists" in capsys.readouterr().err
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "no")
    assert main(["deploy", "delete", "digits"]) == 130
    assert sagemaker.list_endpoints()["Endpoints"]
    assert main(["deploy", "delete", "digits", "--yes"]) == 0
    assert "digits: DELETE_COMPLETE" in capsys.readouterr().out
    assert sagemaker.list_models()["Models"] == sagemaker.list_endpoints()["Endpoints"] == []


def event(number: int, resource: str, status: str, reason: str | None = None) -> dict[str, Any]:
    whole = resource == "digits"
    fields = {
        "StackId": ID,
        "EventId": str(number),
        "StackName": "digits",
        "LogicalResourceId": resource,
        "PhysicalResourceId": ID if whole else resource,
        "ResourceType": "AWS::CloudFormation::Stack" if whole else f"AWS::SageMaker::{resource}",
        "Timestamp": number,
        "ResourceStatus": status,
    }
    return fields | ({"ResourceStatusReason": reason} if reason else {})


CREATED = [event(1, "digits", "CREATE_IN_PROGRESS"), event(2, "digits", "CREATE_COMPLETE")]
ROLLED_BACK = [
    event(3, "digits", "UPDATE_IN_PROGRESS", "User Initiated"),
    event(4, "Endpoint", "UPDATE_IN_PROGRESS"),
    event(5, "Endpoint", "UPDATE_FAILED", "One of the alarms is in state ALARM"),
    event(6, "EndpointConfig", "UPDATE_FAILED", "Resource update cancelled"),
    event(7, "digits", "UPDATE_ROLLBACK_IN_PROGRESS"),
    event(8, "digits", "UPDATE_ROLLBACK_COMPLETE"),
]


class CloudFormation:
    """boto3's client with prepared answers, in the order in which they are asked for."""

    def __init__(self) -> None:
        self.client = boto3.client("cloudformation")
        self._stub = Stubber(self.client)
        self._stub.activate()

    def answer(self, call: str, answer: dict[str, Any], request: dict[str, Any] | None = None) -> None:
        self._stub.add_response(call, answer, request)

    def state(self, state: str, **fields: Any) -> None:
        stack = {"StackId": ID, "StackName": "digits", "CreationTime": 0, "StackStatus": state}
        self.answer("describe_stacks", {"Stacks": [stack | fields]})

    def events(self, events: list[dict[str, Any]]) -> None:
        self.answer("describe_stack_events", {"StackEvents": events[::-1]})

    def fails(self, call: str, message: str) -> None:
        self._stub.add_client_error(call, "ValidationError", message)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudFormation]:
    cloud = CloudFormation()
    monkeypatch.setattr(boto3.Session, "client", lambda *_: cloud.client)
    monkeypatch.setattr("lightbox.tools.deploy.stacks.time.sleep", lambda _: None)
    yield cloud
    cloud._stub.assert_no_pending_responses()


def before_update(cloud: CloudFormation) -> dict[str, Any]:
    """Prepare the answers before UpdateStack; return its request for ``update digits ScaleTo=8 --env B=2 --env A=``."""
    previous = Evaluation("endpoint", GIVEN).values
    body = with_environment("endpoint", {"A": "1", "C": "3"})
    cloud.answer("get_template", {"TemplateBody": body})
    parameters = [{"ParameterKey": name, "ParameterValue": value} for name, value in previous.items()]
    cloud.state("CREATE_COMPLETE", Parameters=parameters)
    cloud.state("CREATE_COMPLETE")
    cloud.events(CREATED)
    changed = [entry | ({"ParameterValue": "8"} if entry["ParameterKey"] == "ScaleTo" else {}) for entry in parameters]
    return {
        "StackName": "digits",
        "TemplateBody": with_environment("endpoint", {"C": "3", "B": "2"}),
        "Parameters": changed,
        "Tags": [{"Key": "application", "Value": "lightbox"}],
    }


UPDATE = ["deploy", "update", "digits", "ScaleTo=8", "--env", "B=2", "--env", "A="]


def test_an_update_keeps_the_rest_and_prints_the_first_failure(
    cloud: CloudFormation, capsys: pytest.CaptureFixture[str]
) -> None:
    request = before_update(cloud)
    cloud.answer("update_stack", {"StackId": ID}, request)
    for state, count in (("UPDATE_IN_PROGRESS", 1), ("UPDATE_IN_PROGRESS", 3), ("UPDATE_ROLLBACK_COMPLETE", 6)):
        cloud.state(state)
        cloud.events([*CREATED, *ROLLED_BACK[:count]])
    assert main(UPDATE) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "== digits: UPDATE_IN_PROGRESS: User Initiated",
        "== Endpoint: UPDATE_IN_PROGRESS",
        "== Endpoint: UPDATE_FAILED: One of the alarms is in state ALARM",
        "== EndpointConfig: UPDATE_FAILED: Resource update cancelled",
        "== digits: UPDATE_ROLLBACK_IN_PROGRESS",
        "== digits: UPDATE_ROLLBACK_COMPLETE",
    ]
    assert "state UPDATE_ROLLBACK_COMPLETE; Endpoint: UPDATE_FAILED: One of the alarms is in state ALARM\n" in said.err
    assert "serves its previous configuration\nlogs of the containers: aws logs tail" in said.err


def test_an_update_that_changes_nothing_succeeds(cloud: CloudFormation, capsys: pytest.CaptureFixture[str]) -> None:
    before_update(cloud)
    cloud.fails("update_stack", "No updates are to be performed.")
    assert main(UPDATE) == 0
    assert "nothing changes" in capsys.readouterr().out


def test_an_interruption_says_how_to_look_at_what_goes_on(
    cloud: CloudFormation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lightbox.tools.deploy.stacks.time.sleep", interrupted)
    cloud.answer("create_stack", {"StackId": ID})
    cloud.state("CREATE_IN_PROGRESS")
    cloud.events(CREATED[:1])
    assert main(["deploy", "create", "digits", *WORDS]) == 130
    assert "CloudFormation continues; to look at it: lightbox deploy status digits" in capsys.readouterr().err


def test_wrong_words_are_refused_before_anything_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    for words, code, sentence in (
        (["Role"], 2, "expected Role=VALUE once, got Role"),
        ([*WORDS, "Role=1"], 2, "expected Role=VALUE once, got Role=1"),
        ([*WORDS, "--env", "=1"], 2, "expected NAME=VALUE once, got =1"),
        ([*WORDS, "Kind=fast"], 1, "Kind: expected one of real-time"),
    ):
        assert main(["deploy", "create", "digits", *words]) == code
        assert sentence in capsys.readouterr().err
    assert boto3.client("cloudformation").list_stacks()["StackSummaries"] == []


def test_missing_credentials_and_regions_are_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert main(["deploy", "status", "digits"]) == 1
    assert "no AWS credentials: set AWS_PROFILE" in capsys.readouterr().err
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert main(["deploy", "status", "digits"]) == 1
    assert "You must specify a region." in capsys.readouterr().err


def test_invoke_names_a_part_of_an_endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"bytes")
    client = boto3.client("sagemaker-runtime")
    sent: list[dict[str, Any]] = []
    client.meta.events.register("before-call.sagemaker-runtime.InvokeEndpoint", lambda params, **_: sent.append(params))
    monkeypatch.setattr("lightbox.tools.client.boto.runtime_client", lambda *_: client)
    for option, header in (
        ("--inference-component-name", "X-Amzn-SageMaker-Inference-Component"),
        ("--target-container-hostname", "X-Amzn-SageMaker-Target-Container-Hostname"),
        ("--target-model", "X-Amzn-SageMaker-Target-Model"),
    ):
        assert main(["invoke", str(tmp_path / "photo.jpg"), "--endpoint-name", "shared", option, "digits"]) == 0
        assert sent.pop()["headers"][header] == "digits"
