"""Helpers for the tests of lightbox.tools.deploy: a plan, and the SageMaker calls that moto lacks."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import boto3
from moto.sagemaker.models import sagemaker_backends

from lightbox.tools.deploy import steps
from lightbox.tools.deploy.aws_calls import Aws
from lightbox.tools.deploy.command import command
from lightbox.tools.deploy.deployment import Plan

REGION = "eu-central-1"
ROLE = "arn:aws:iam::123456789012:role/lightbox-execution"
IMAGE = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/lightbox:1"


def plan(**changes: Any) -> Plan:
    """Return a plan for the endpoint ``digits``."""
    given: dict[str, Any] = {
        "endpoint": "digits",
        "image": IMAGE,
        "role": ROLE,
        "model_data": "s3://b/model.tar.gz",
        # moto does not support newer ones.
        "instance_type": "ml.c5.xlarge",
    }
    return Plan(**(given | changes))


def typed(*words: str) -> Plan:
    """Return the plan for a command line of ``lightbox deploy``; raise click.ClickException."""
    with patch.object(steps, "deploy") as deployed, patch.object(steps, "update") as updated:
        command.main([*words, "--region", REGION], standalone_mode=False)
    (call,) = [*deployed.call_args_list, *updated.call_args_list]
    planned: Plan = call.args[1]
    return planned


class UpdateEndpoint:
    """Answers UpdateEndpoint instead of moto, and the states after it; botocore validates the request first.

    The next DescribeEndpoint returns Updating, the one after InService with the new configuration, or with its old one
    and a reason if ``reason`` is given (rollback).
    """

    def __init__(self, aws: Aws, reason: str | None = None) -> None:
        self.request: dict[str, Any] = {}
        self._reason = reason
        self._states: list[str] = []
        events = aws.client("sagemaker").meta.events
        events.register("before-call.sagemaker.UpdateEndpoint", self._update)
        events.register("after-call.sagemaker.DescribeEndpoint", self._describe)

    def _update(self, params: dict[str, Any], **_: Any) -> tuple[SimpleNamespace, dict[str, Any]]:
        self.request = json.loads(params["body"])
        self._states = ["Updating", "InService"]
        return SimpleNamespace(status_code=200), {"EndpointArn": self._endpoint().arn, "ResponseMetadata": {}}

    def _describe(self, parsed: dict[str, Any], **_: Any) -> None:
        if not self._states:
            return
        parsed["EndpointStatus"] = self._states.pop(0)
        if not self._states and self._reason is None:
            self._endpoint().endpoint_config_name = self.request["EndpointConfigName"]
        elif not self._states:
            self._endpoint().failure_reason = self._reason

    def _endpoint(self) -> Any:
        return sagemaker_backends["123456789012"][REGION].endpoints[self.request["EndpointName"]]


NO_MODEL = "none"


def _with_model(params: dict[str, Any], **_: Any) -> None:
    request = json.loads(params["body"])
    for variant in request["ProductionVariants"]:
        variant.setdefault("ModelName", NO_MODEL)
    params["body"] = json.dumps(request).encode()


def _without_model(parsed: dict[str, Any], **_: Any) -> None:
    for variant in parsed.get("ProductionVariants", []):
        if variant["ModelName"] == NO_MODEL:
            del variant["ModelName"]


class InferenceComponents:
    """Answers the calls for inference components instead of moto; botocore validates each request first.

    ``there`` has the components by name. After a create or update, the next describe returns Creating or Updating,
    then InService, or Failed with ``reason``. A deleted component is Deleting once, then missing.
    """

    def __init__(self, aws: Aws, reason: str | None = None) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self._reason = reason
        events = aws.client("sagemaker").meta.events
        for name in ("Create", "Update", "Describe", "Delete"):
            answer = getattr(self, f"_{name.lower()}")
            events.register(f"before-call.sagemaker.{name}InferenceComponent", self._answering(name, answer))
        # moto requires an existing model in each variant; a configuration for components has none.
        aws.client("sagemaker").create_model(
            ModelName=NO_MODEL, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE}
        )
        events.register("before-call.sagemaker.CreateEndpointConfig", _with_model)
        events.register("after-call.sagemaker.DescribeEndpointConfig", _without_model)
        events.register("before-call.sagemaker.ListInferenceComponents", self._answering("List", self._list))

    def _answering(self, name: str, answer: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Callable[..., Any]:
        def before_call(params: dict[str, Any], **_: Any) -> tuple[SimpleNamespace, dict[str, Any]]:
            self.asked.append(name)
            found = answer(json.loads(params["body"]))
            if found is not None:
                return SimpleNamespace(status_code=200), {"ResponseMetadata": {}, **found}
            error = {"Code": "ValidationException", "Message": "Could not find inference component"}
            return SimpleNamespace(status_code=400), {"ResponseMetadata": {}, "Error": error}

        return before_call

    def _create(self, request: dict[str, Any]) -> dict[str, Any]:
        self.there[request["InferenceComponentName"]] = {"request": request, "states": ["Creating", self._end()]}
        return {"InferenceComponentArn": "arn"}

    def _end(self) -> str:
        return "InService" if self._reason is None else "Failed"

    def _update(self, request: dict[str, Any]) -> dict[str, Any]:
        component = self.there[request["InferenceComponentName"]]
        component["request"] |= request
        component["states"] = ["Updating", self._end()]
        return {"InferenceComponentArn": "arn"}

    def _delete(self, request: dict[str, Any]) -> dict[str, Any]:
        self.there[request["InferenceComponentName"]]["states"] = ["Deleting", "gone"]
        return {}

    def _describe(self, request: dict[str, Any]) -> dict[str, Any] | None:
        component = self.there.get(request["InferenceComponentName"])
        if component is None:
            return None
        states = component["states"]
        state = states.pop(0) if len(states) > 1 else states[0]
        if state == "gone":
            del self.there[request["InferenceComponentName"]]
            return None
        fields = {"InferenceComponentStatus": state, "FailureReason": self._reason or ""}
        return fields | {"Specification": component["request"]["Specification"]}

    def _list(self, request: dict[str, Any]) -> dict[str, Any]:
        names = [
            name for name, it in self.there.items() if it["request"]["EndpointName"] == request["EndpointNameEquals"]
        ]
        return {"InferenceComponents": [{"InferenceComponentName": name} for name in names]}


def autoscaling() -> Any:
    return boto3.client("application-autoscaling", REGION)


def alarms() -> dict[str, dict[str, Any]]:
    found = boto3.client("cloudwatch", REGION).describe_alarms()["MetricAlarms"]
    return {alarm["AlarmName"]: alarm for alarm in found}
