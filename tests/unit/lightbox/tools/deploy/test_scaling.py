"""How an endpoint scales: its policies, its alarm, and bounds that cannot be."""

from __future__ import annotations

import pytest

from lightbox.tools.deploy import steps
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.deployment import Kind
from lightbox.tools.deploy.scaling import Scaling
from support.deployment import alarms, autoscaling, plan

SCALING = Scaling(1, 4, 1000)
FROM_ZERO = Scaling(0, 4, 5)


def test_a_real_time_endpoint_follows_the_invocations_of_each_instance(aws: Aws) -> None:
    steps.deploy(aws, plan(), SCALING, pause=0)
    (policy,) = autoscaling().describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    tracking = policy["TargetTrackingScalingPolicyConfiguration"]
    metric = tracking["PredefinedMetricSpecification"]["PredefinedMetricType"]
    assert (metric, tracking["TargetValue"]) == ("SageMakerVariantInvocationsPerInstance", 1000)
    assert not alarms()


def test_an_asynchronous_endpoint_without_an_instance_is_woken_by_a_request(aws: Aws) -> None:
    wanted = plan(kind=Kind.ASYNCHRONOUS, output="s3://b/answers")
    for _ in range(2):
        steps.deploy(aws, wanted, FROM_ZERO, pause=0)
    (target,) = autoscaling().describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (0, 4)
    policies = autoscaling().describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert {policy["PolicyName"] for policy in policies} == {"digits-load", "digits-wake"}
    (waking,) = [policy for policy in policies if policy["PolicyType"] == "StepScaling"]
    (step,) = waking["StepScalingPolicyConfiguration"]["StepAdjustments"]
    assert step == {"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}
    alarm = alarms()["digits-backlog"]
    assert alarm["MetricName"] == "HasBacklogWithoutCapacity"
    assert alarm["AlarmActions"] == [waking["PolicyARN"]]


@pytest.mark.parametrize(("bounds", "words"), [((4, 1, 5), "at most the second"), ((1, 4, 0), "above 0")])
def test_bounds_that_cannot_be_are_refused(bounds: tuple[int, int, float], words: str) -> None:
    with pytest.raises(Refused, match=words):
        Scaling(*bounds)
