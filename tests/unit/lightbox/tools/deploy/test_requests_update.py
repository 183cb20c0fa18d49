"""update: moto holds the resources. support.deployment answers UpdateEndpoint, which moto lacks."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from lightbox.tools.deploy import steps
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.deployment import Kind
from lightbox.tools.deploy.scaling import Scaling
from support.deployment import REGION, UpdateEndpoint, plan

pytestmark = pytest.mark.extended

NEW = plan(model_data="s3://b/other.tar.gz", instances=3)


def serving(endpoint: str = "digits") -> str:
    answer = boto3.client("sagemaker", REGION).describe_endpoint(EndpointName=endpoint)
    return str(answer["EndpointConfigName"])


@pytest.mark.extended
@pytest.mark.parametrize("way", ["blue-green", "rolling"])
def test_both_ways_go_step_by_step_and_carry_the_rollback_alarm(aws: Aws, way: Any) -> None:
    steps.deploy(aws, plan(), None, pause=0)
    sent = UpdateEndpoint(aws)
    steps.update(aws, NEW, steps.Rollout(way, step=20, wait=60, errors=9), pause=0)
    assert serving() == NEW.config_name
    deployment = sent.request["DeploymentConfig"]
    assert deployment["AutoRollbackConfiguration"]["Alarms"] == [{"AlarmName": "digits-rollback"}]
    size = {"Type": "CAPACITY_PERCENT", "Value": 20}
    if way == "rolling":
        assert deployment["RollingUpdatePolicy"] == {"MaximumBatchSize": size, "WaitIntervalInSeconds": 60}
    else:
        routing = deployment["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"]
        assert routing == {"Type": "CANARY", "CanarySize": size, "WaitIntervalInSeconds": 60}
    (alarm,) = boto3.client("cloudwatch", REGION).describe_alarms()["MetricAlarms"]
    assert (alarm["AlarmName"], alarm["MetricName"]) == ("digits-rollback", "Invocation5XXErrors")
    assert alarm["Threshold"] == 9


def test_each_state_is_shown(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    steps.deploy(aws, plan(), None, pause=0)
    UpdateEndpoint(aws)
    capsys.readouterr()
    steps.update(aws, NEW, steps.Rollout(), pause=0)
    said = capsys.readouterr().out
    for words in (f"model {NEW.model_name}: made", f"configuration {NEW.config_name}: made", "Updating", "InService"):
        assert words in said


def test_a_rollback_is_an_error_with_its_reason(aws: Aws) -> None:
    steps.deploy(aws, plan(), None, pause=0)
    UpdateEndpoint(aws, reason="One of the alarms is in state ALARM")
    with pytest.raises(
        Refused, match=r"rolled back: One of the alarms.*\n.*serves its previous configuration; its log: http"
    ):
        steps.update(aws, NEW, steps.Rollout(), pause=0)
    assert serving() == plan().config_name


def test_the_way_back_is_an_update_that_makes_nothing(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    steps.deploy(aws, plan(), None, pause=0)
    UpdateEndpoint(aws)
    steps.update(aws, NEW, steps.Rollout(), pause=0)
    capsys.readouterr()
    steps.update(aws, plan(), steps.Rollout(), pause=0)
    assert serving() == plan().config_name
    assert capsys.readouterr().out.count(": already there") == 2


@pytest.mark.parametrize("scaling", [None, Scaling(1, 4, 1000)])
def test_the_number_of_instances_is_the_plans_unless_autoscaling_chooses_it(aws: Aws, scaling: Scaling | None) -> None:
    steps.deploy(aws, plan(), scaling, pause=0)
    sent = UpdateEndpoint(aws)
    steps.update(aws, NEW, steps.Rollout(), pause=0)
    assert sent.request["RetainAllVariantProperties"] is (scaling is not None)


def test_a_serverless_endpoint_is_replaced_at_once(aws: Aws) -> None:
    old, new = plan(kind=Kind.SERVERLESS), plan(kind=Kind.SERVERLESS, memory_mb=2048)
    steps.deploy(aws, old, None, pause=0)
    sent = UpdateEndpoint(aws)
    steps.update(aws, new, steps.Rollout(), pause=0)
    assert sent.request == {"EndpointName": "digits", "EndpointConfigName": new.config_name}
    with pytest.raises(Refused, match="no machines to replace"):
        steps.update(aws, old, steps.Rollout("rolling"), pause=0)


def test_the_same_content_is_left_alone(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    steps.deploy(aws, plan(), None, pause=0)
    steps.update(aws, plan(), steps.Rollout(), pause=0)
    assert "serves this already" in capsys.readouterr().out


def test_what_is_not_there_cannot_be_updated(aws: Aws) -> None:
    with pytest.raises(Refused, match="use deploy"):
        steps.update(aws, plan(), steps.Rollout(), pause=0)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"way": "rolling", "step": 4}, "rolling takes 5 to 50 percent"),
        ({"step": 51}, "blue-green takes 1 to 50 percent"),
        ({"wait": 3601}, "waits 0 to 3600 seconds"),
        ({"errors": -1}, "0 or more"),
    ],
)
def test_a_rollout_that_sagemaker_would_not_make_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        steps.Rollout(**asked)
