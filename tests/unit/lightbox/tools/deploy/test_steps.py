"""push, deploy, invoke and delete against moto."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from lightbox.tools.deploy import steps
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.deletion import delete
from lightbox.tools.deploy.deployment import Kind
from lightbox.tools.deploy.push import push
from lightbox.tools.deploy.scaling import Scaling
from lightbox.tools.deploy.waiting import endpoint_ready
from support.deployment import REGION, alarms, autoscaling, plan

SCALING = Scaling(1, 4, 1000)
FROM_ZERO = Scaling(0, 4, 5)


def test_push_logs_in_tags_and_pushes(aws: Aws) -> None:
    commands: list[list[str]] = []
    passwords: list[str | None] = []

    def docker(command: list[str], text: str | None) -> None:
        commands.append(command)
        passwords.append(text)

    for _ in range(2):
        name = push(aws, "lightbox", "lightbox", "7", docker)
    assert name == "123456789012.dkr.ecr.eu-central-1.amazonaws.com/lightbox:7"
    assert [command[1] for command in commands] == ["login", "tag", "push"] * 2
    assert commands[2][-1] == name
    assert passwords[0]
    assert passwords[1] is None


class TestDeploy:
    @pytest.mark.extended
    def test_everything_is_made_once(self, aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
        for _ in range(2):
            steps.deploy(aws, plan(), SCALING, pause=0)
        said = capsys.readouterr().out
        assert said.count(": made") == 3
        assert said.count(": already there") == 3
        sagemaker = boto3.client("sagemaker", REGION)
        config = sagemaker.describe_endpoint_config(EndpointConfigName=plan().config_name)
        assert "DataCaptureConfig" not in config or not config["DataCaptureConfig"]
        assert config["ProductionVariants"][0]["InstanceType"] == "ml.c5.xlarge"

    def test_another_content_is_an_update(self, aws: Aws) -> None:
        steps.deploy(aws, plan(), None, pause=0)
        with pytest.raises(Refused, match="use update"):
            steps.deploy(aws, plan(model_data="s3://b/other.tar.gz"), None, pause=0)

    def test_the_reason_and_the_log_of_a_failure_are_shown(self, aws: Aws) -> None:
        steps.deploy(aws, plan(), None, pause=0)
        failed = {
            "EndpointName": "digits",
            "EndpointArn": "arn:aws:sagemaker:eu-central-1:123456789012:endpoint/digits",
            "EndpointConfigName": plan().config_name,
            "EndpointStatus": "Failed",
            "FailureReason": "The container did not pass the ping health check",
            "CreationTime": 0,
            "LastModifiedTime": 0,
        }
        with Stubber(aws.client("sagemaker")) as stub:
            for state in ("Creating", "Failed", "Failed"):
                stub.add_response("describe_endpoint", failed | {"EndpointStatus": state})
            with pytest.raises(Refused, match=r"ping health check\nits log: https://.*Endpoints.*digits"):
                endpoint_ready(aws, "digits", pause=0)

    @pytest.mark.parametrize(
        ("changes", "scaling", "words"),
        [
            ({"kind": Kind.SERVERLESS}, SCALING, "scales by itself"),
            ({}, FROM_ZERO, "at least one instance"),
            ({"startup_seconds": 7200}, None, "ContainerStartupHealthCheckTimeoutInSeconds is 7200, and 3600 is the"),
            ({"kind": Kind.SERVERLESS, "concurrency": 201}, None, "MaxConcurrency is 201, and 200 is the most"),
            ({"role": "arn:aws:iam::12:role/short"}, None, "ExecutionRoleArn is .*does not match"),
            ({"environment": {"A": "x" * 1025}}, None, "Environment.A has 1025 characters, and 1024 is the most"),
            ({"environment": {"A-B": "x"}}, None, "a name in PrimaryContainer.Environment is 'A-B', which does not"),
            ({"instances": 0}, None, "InitialInstanceCount"),
        ],
    )
    def test_what_cannot_be_is_refused_before_anything_is_made(
        self, aws: Aws, changes: dict[str, Any], scaling: Scaling | None, words: str
    ) -> None:
        with pytest.raises(Refused, match=words):
            steps.deploy(aws, plan(**changes), scaling, pause=0)
        assert boto3.client("sagemaker", REGION).list_models()["Models"] == []

    @pytest.mark.parametrize("name", ["-a", "a_b", "a" * 50, ""])
    def test_a_name_that_sagemaker_would_not_take_is_refused(self, name: str) -> None:
        with pytest.raises(Refused, match="letters, digits and hyphens"):
            plan(endpoint=name)


class TestInvoke:
    def test_a_file_is_sent_and_the_answer_returned(self, aws: Aws, tmp_path: Path) -> None:
        (tmp_path / "photo.jpg").write_bytes(b"bytes")
        asked: list[dict[str, Any]] = []
        events = aws.client("sagemaker-runtime").meta.events
        events.register("before-call.sagemaker-runtime.InvokeEndpoint", lambda params, **_: asked.append(params))
        to = steps.Target("tfs-model-name=digits")
        answer = b"".join(steps.invoke(aws, "digits", tmp_path / "photo.jpg", "image/jpeg", to))
        assert answer == b"body", "moto's answer"
        assert asked[0]["body"] == b"bytes"
        assert asked[0]["headers"]["X-Amzn-SageMaker-Custom-Attributes"] == "tfs-model-name=digits"

    def test_an_object_of_s3_is_handed_on(self, aws: Aws) -> None:
        assert steps.invoke_asynchronously(aws, "digits", "s3://b/photo.jpg", "image/jpeg").startswith("s3://")
        with pytest.raises(Refused, match="is no s3://"):
            steps.invoke_asynchronously(aws, "digits", "photo.jpg", "image/jpeg")


def test_delete_leaves_nothing_of_ours_and_nothing_of_others_behind(aws: Aws) -> None:
    sagemaker = boto3.client("sagemaker", REGION)
    steps.deploy(aws, plan(kind=Kind.ASYNCHRONOUS, output="s3://b/answers"), FROM_ZERO, pause=0)
    earlier, neighbour = plan(model_data="s3://b/earlier.tar.gz"), plan(endpoint="digits-two")
    steps.make_model(aws, earlier)
    steps.deploy(aws, neighbour, None, pause=0)
    delete(aws, "digits")
    assert [entry["EndpointName"] for entry in sagemaker.list_endpoints()["Endpoints"]] == ["digits-two"]
    assert [entry["ModelName"] for entry in sagemaker.list_models()["Models"]] == [neighbour.model_name]
    assert not autoscaling().describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert not alarms()
    with pytest.raises(Refused, match="is not there"):
        delete(aws, "digits")


def test_delete_takes_what_an_interrupted_deletion_or_a_transform_job_left(aws: Aws) -> None:
    sagemaker = boto3.client("sagemaker", REGION)
    steps.deploy(aws, plan(), None, pause=0)
    sagemaker.delete_endpoint(EndpointName="digits")
    delete(aws, "digits")
    assert sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
    assert sagemaker.list_models()["Models"] == []
    steps.make_model(aws, plan())
    delete(aws, "digits")
    assert sagemaker.list_models()["Models"] == []
