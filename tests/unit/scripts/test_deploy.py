"""scripts/deploy.py against moto, and against botocore's model where moto has no such call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

import deploy
from deployment import requests, steps
from deployment.aws import Aws, Refused
from deployment.deletion import delete
from deployment.plan import Kind, Plan
from deployment.push import push
from deployment.waiting import endpoint_ready
from support.stack import REPOSITORY

ROLE = "arn:aws:iam::123456789012:role/lightbox-execution"
IMAGE = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/lightbox:1"
REGION = "eu-central-1"
SCALING = requests.Scaling(1, 4, 1000)


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield


@pytest.fixture
def aws() -> Aws:
    return Aws(REGION)


def plan(**changes: Any) -> Plan:
    given: dict[str, Any] = {
        "endpoint": "digits",
        "image": IMAGE,
        "role": ROLE,
        "model_data": "s3://b/model.tar.gz",
        # Newer ones are unknown to moto.
        "instance_type": "ml.c5.xlarge",
    }
    return Plan(**(given | changes))


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
        policies = boto3.client("application-autoscaling", REGION).describe_scaling_policies(
            ServiceNamespace="sagemaker"
        )
        tracking = policies["ScalingPolicies"][0]["TargetTrackingScalingPolicyConfiguration"]
        assert (
            tracking["PredefinedMetricSpecification"]["PredefinedMetricType"]
            == "SageMakerVariantInvocationsPerInstance"
        )

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
            ({}, requests.Scaling(0, 4, 1000), "at least one instance"),
        ],
    )
    def test_scaling_that_cannot_be_is_refused_first(
        self, aws: Aws, changes: dict[str, Any], scaling: requests.Scaling, words: str
    ) -> None:
        with pytest.raises(Refused, match=words):
            steps.deploy(aws, plan(**changes), scaling, pause=0)
        assert boto3.client("sagemaker", REGION).list_models()["Models"] == []

    @pytest.mark.parametrize("name", ["-a", "a_b", "a" * 50, ""])
    def test_a_name_that_sagemaker_would_not_take_is_refused(self, name: str) -> None:
        with pytest.raises(Refused, match="letters, digits and hyphens"):
            plan(endpoint=name)


class TestUpdate:
    new: ClassVar = {"model_data": "s3://b/other.tar.gz"}

    def described(self, config: str) -> dict[str, Any]:
        return {
            "EndpointName": "digits",
            "EndpointArn": "arn:aws:sagemaker:eu-central-1:123456789012:endpoint/digits",
            "EndpointConfigName": config,
            "EndpointStatus": "InService",
            "CreationTime": 0,
            "LastModifiedTime": 0,
        }

    def run(self, aws: Aws, after: str, rollout: steps.Rollout) -> None:
        old, new = plan(), plan(**self.new)
        arn = "arn:aws:sagemaker:eu-central-1:123456789012:thing/digits-1"
        absent = {"service_error_code": "ValidationException", "service_message": "Could not find it"}
        with Stubber(aws.client("sagemaker")) as stub:
            stub.add_response("describe_endpoint", self.described(old.config_name))
            stub.add_client_error("describe_model", **absent)
            stub.add_response("create_model", {"ModelArn": arn}, requests.model(new))
            stub.add_client_error("describe_endpoint_config", **absent)
            stub.add_response("create_endpoint_config", {"EndpointConfigArn": arn}, requests.endpoint_config(new))
            asked = requests.update(new, rollout.way, rollout.step, rollout.wait)
            stub.add_response("update_endpoint", {"EndpointArn": arn}, asked)
            for config in (after, after):
                stub.add_response("describe_endpoint", self.described(config))
            steps.update(aws, new, rollout, pause=0)
            stub.assert_no_pending_responses()

    @pytest.mark.parametrize("way", ["blue-green", "rolling"])
    def test_both_ways_carry_the_rollback_alarm(self, aws: Aws, way: Any) -> None:
        self.run(aws, plan(**self.new).config_name, steps.Rollout(way))
        alarms = boto3.client("cloudwatch", REGION).describe_alarms()["MetricAlarms"]
        assert [alarm["AlarmName"] for alarm in alarms] == ["digits-rollback"]
        asked = requests.update(plan(**self.new), way, 10, 300)
        assert asked["DeploymentConfig"]["AutoRollbackConfiguration"]["Alarms"] == [{"AlarmName": "digits-rollback"}]

    def test_a_rollback_is_an_error(self, aws: Aws) -> None:
        with pytest.raises(Refused, match="rolled back"):
            self.run(aws, plan().config_name, steps.Rollout())

    def test_the_same_content_is_left_alone(self, aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
        steps.deploy(aws, plan(), None, pause=0)
        steps.update(aws, plan(), steps.Rollout(), pause=0)
        assert "serves this already" in capsys.readouterr().out

    def test_what_is_not_there_cannot_be_updated(self, aws: Aws) -> None:
        with pytest.raises(Refused, match="use deploy"):
            steps.update(aws, plan(), steps.Rollout(), pause=0)


def test_delete_leaves_nothing_of_ours_and_nothing_of_others_behind(aws: Aws) -> None:
    sagemaker = boto3.client("sagemaker", REGION)
    steps.deploy(aws, plan(), SCALING, pause=0)
    earlier, neighbour = plan(model_data="s3://b/earlier.tar.gz"), plan(endpoint="digits-two")
    steps.make_model(aws, earlier)
    steps.deploy(aws, neighbour, None, pause=0)
    delete(aws, "digits")
    assert [entry["EndpointName"] for entry in sagemaker.list_endpoints()["Endpoints"]] == ["digits-two"]
    assert [entry["ModelName"] for entry in sagemaker.list_models()["Models"]] == [neighbour.model_name]
    targets = boto3.client("application-autoscaling", REGION).describe_scalable_targets(ServiceNamespace="sagemaker")
    assert targets["ScalableTargets"] == []
    with pytest.raises(Refused, match="is not there"):
        delete(aws, "digits")


def test_delete_asks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("builtins.input", lambda _: "no")
    assert deploy.main(["delete", "digits", "--region", REGION]) == 1
    assert "nothing was deleted" in capsys.readouterr().err


def test_a_transform_job_is_made_and_waited_for(aws: Aws) -> None:
    wanted = plan(output="s3://b/answers")
    arn = "arn:aws:sagemaker:eu-central-1:123456789012:model/digits-1"
    job = {
        "TransformJobName": "j",
        "TransformJobArn": "arn:aws:sagemaker:eu-central-1:123456789012:transform-job/j",
        "ModelName": "m",
        "TransformInput": requests.transform(wanted, "j", "s3://b/in", "image/png")["TransformInput"],
        "TransformResources": {"InstanceType": "ml.c6i.xlarge", "InstanceCount": 1},
        "CreationTime": 0,
        "FailureReason": "AlgorithmError",
    }
    with Stubber(aws.client("sagemaker")) as stub:
        stub.add_response("describe_model", {"ModelName": "m", "ModelArn": arn, "CreationTime": 0})
        stub.add_response("create_transform_job", {"TransformJobArn": job["TransformJobArn"]})
        for state in ("InProgress", "Failed", "Failed"):
            stub.add_response("describe_transform_job", job | {"TransformJobStatus": state})
        with pytest.raises(Refused, match="AlgorithmError"):
            steps.transform(aws, wanted, "s3://b/in", "image/png", pause=0)


COMMON = ["--image", IMAGE, "--role", ROLE]
COMMANDS = {
    "real-time": ["deploy", "digits", *COMMON, "--scale-to", "4", "--env", "LIGHTBOX_TRANSPORT=rest"],
    "serverless": ["deploy", "digits", *COMMON, "--serverless", "--memory-mb", "3072"],
    "asynchronous": [
        *["deploy", "digits", *COMMON, "--asynchronous", "--output", "s3://b/answers"],
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
    assert deploy.main([*command, "--region", REGION, "--dry-run"]) == 0
    assert "\n-- " in f"\n{capsys.readouterr().out}"


def test_botocores_objections_are_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["deploy", "digits", "--image", IMAGE, "--role", "short", "--region", REGION, "--dry-run"]
    assert deploy.main(command) == 1
    assert "ExecutionRoleArn" in capsys.readouterr().err
