"""How many instances an endpoint has: Application Auto Scaling's target and policies, and an alarm that wakes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightbox.base.telemetry import say
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.deployment import VARIANT, Kind, Plan

Request = dict[str, Any]
SERVICE = "application-autoscaling"


@dataclass(frozen=True)
class Scaling:
    """Between how many instances, and towards which load on each.

    The load is invocations a minute (real-time) or requests that wait (asynchronous).
    """

    least: int
    most: int
    target: float

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most:
            raise Refused(f"--scale-from {self.least} --scale-to {self.most}: the first must be at most the second")
        if self.target <= 0:
            raise Refused(f"--scale-target {self.target:g}: expected a load above 0")


def check(plan: Plan, scaling: Scaling) -> None:
    """Raise Refused when an endpoint of this kind cannot be scaled so."""
    if plan.kind is Kind.SERVERLESS:
        raise Refused("a serverless endpoint scales by itself: leave the --scale options out")
    if plan.kind is Kind.REAL_TIME and scaling.least < 1:
        raise Refused("a real-time endpoint keeps at least one instance: only an asynchronous one scales to 0")


def scale(aws: Aws, plan: Plan, scaling: Scaling) -> None:
    """Let an endpoint's number of instances follow the load; an asynchronous one may go to none and come back."""
    aws.call(SERVICE, "register_scalable_target", **registration(plan.endpoint, scaling))
    aws.call(SERVICE, "put_scaling_policy", **load_policy(plan.endpoint, plan.kind, scaling))
    say.progress(f"scaling: {scaling.least} to {scaling.most} instances, {scaling.target:g} on each")
    if scaling.least == 0:
        policy = aws.call(SERVICE, "put_scaling_policy", **waking_policy(plan.endpoint))
        arn = str(policy.get("PolicyARN", f"<ARN of the policy {plan.endpoint}-wake>"))
        aws.call("cloudwatch", "put_metric_alarm", **backlog_alarm(plan.endpoint, arn))
        say.progress(
            f"alarm {backlog_alarm_name(plan.endpoint)}: a request that waits for the first instance starts it"
        )


def is_scaled(aws: Aws, endpoint: str) -> bool:
    """Whether the number of instances is Application Auto Scaling's to choose; a dry run says no."""
    target = scalable_target(endpoint)
    found = aws.find(
        SERVICE,
        "describe_scalable_targets",
        ServiceNamespace=target["ServiceNamespace"],
        ResourceIds=[target["ResourceId"]],
    )
    return bool(found and found["ScalableTargets"])


def stop_scaling(aws: Aws, endpoint: str) -> None:
    """Take the scaling of an endpoint away, its policies too."""
    if is_scaled(aws, endpoint):
        aws.call(SERVICE, "deregister_scalable_target", **scalable_target(endpoint))
        say.progress("scaling: deleted")


def scalable_target(name: str) -> Request:
    """Return how Application Auto Scaling calls an endpoint's number of instances."""
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{name}/variant/{VARIANT}",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }


def registration(name: str, scaling: Scaling) -> Request:
    """Return RegisterScalableTarget."""
    return scalable_target(name) | {"MinCapacity": scaling.least, "MaxCapacity": scaling.most}


def load_policy(name: str, kind: Kind, scaling: Scaling) -> Request:
    """Return PutScalingPolicy: quickly out, slowly in."""
    tracking: Request = {"TargetValue": scaling.target, "ScaleInCooldown": 300, "ScaleOutCooldown": 60}
    if kind is Kind.ASYNCHRONOUS:
        tracking["CustomizedMetricSpecification"] = {
            "MetricName": "ApproximateBacklogSizePerInstance",
            "Namespace": "AWS/SageMaker",
            "Dimensions": [{"Name": "EndpointName", "Value": name}],
            "Statistic": "Average",
        }
    else:
        tracking["PredefinedMetricSpecification"] = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
    return scalable_target(name) | {
        "PolicyName": f"{name}-load",
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": tracking,
    }


def waking_policy(name: str) -> Request:
    """Return PutScalingPolicy: one more instance for each alarm.

    The load is counted per instance, and without an instance there is no such figure: something else must start the
    first (https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html).
    """
    step = {"MetricIntervalLowerBound": 0.0, "ScalingAdjustment": 1}
    return scalable_target(name) | {
        "PolicyName": f"{name}-wake",
        "PolicyType": "StepScaling",
        "StepScalingPolicyConfiguration": {
            "AdjustmentType": "ChangeInCapacity",
            "MetricAggregationType": "Average",
            "Cooldown": 300,
            "StepAdjustments": [step],
        },
    }


def backlog_alarm(name: str, policy: str) -> Request:
    """Return PutMetricAlarm: requests wait and there is no instance, for two minutes; it runs the policy."""
    return {
        "AlarmName": backlog_alarm_name(name),
        "AlarmDescription": f"Starts the first instance of the endpoint {name}",
        "Namespace": "AWS/SageMaker",
        "MetricName": "HasBacklogWithoutCapacity",
        "Dimensions": [{"Name": "EndpointName", "Value": name}],
        "Statistic": "Average",
        "Period": 60,
        "EvaluationPeriods": 2,
        "DatapointsToAlarm": 2,
        "Threshold": 1.0,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "TreatMissingData": "missing",
        "AlarmActions": [policy],
    }


def backlog_alarm_name(endpoint: str) -> str:
    """Return the name of the alarm that starts an endpoint's first instance."""
    return f"{endpoint}-backlog"
