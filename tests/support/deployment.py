"""Helpers for the tests of lightbox.tools.deploy: the requests that CloudFormation makes of a template."""

from __future__ import annotations

import functools
import re
from typing import Any

import botocore.session
import yaml
from botocore.validate import validate_parameters

from lightbox.tools.deploy.templates import checked, with_environment

REGION = "eu-central-1"
ROLE = "arn:aws:iam::123456789012:role/lightbox-execution"
IMAGE = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/lightbox:1"
GIVEN = {"Role": ROLE, "Image": IMAGE, "ModelData": "s3://b/model.tar.gz"}

CALLS = {
    "AWS::SageMaker::Model": ("sagemaker", "CreateModel", "ModelName"),
    "AWS::SageMaker::EndpointConfig": ("sagemaker", "CreateEndpointConfig", "EndpointConfigName"),
    # Creation takes a part of it.
    "AWS::SageMaker::Endpoint": ("sagemaker", "UpdateEndpoint", "EndpointName"),
    "AWS::SageMaker::InferenceComponent": ("sagemaker", "CreateInferenceComponent", "InferenceComponentName"),
    "AWS::CloudWatch::Alarm": ("cloudwatch", "PutMetricAlarm", "AlarmName"),
    "AWS::ApplicationAutoScaling::ScalableTarget": ("application-autoscaling", "RegisterScalableTarget", None),
    "AWS::ApplicationAutoScaling::ScalingPolicy": ("application-autoscaling", "PutScalingPolicy", None),
}
"""The call that makes a resource, and its field for the resource's name."""

NOTHING = object()


class _Loader(yaml.SafeLoader):
    """Reads the short forms of CloudFormation's functions."""


def _function(loader: Any, name: str, node: yaml.Node) -> dict[str, Any]:
    values = {yaml.ScalarNode: loader.construct_scalar, yaml.SequenceNode: loader.construct_sequence}
    deep = {} if isinstance(node, yaml.ScalarNode) else {"deep": True}
    return {name: values[type(node)](node, **deep)}


_Loader.add_multi_constructor("!", _function)


@functools.cache
def template(name: str) -> dict[str, Any]:
    """Return a template; its functions are one-entry dictionaries by their short names."""
    found: dict[str, Any] = yaml.load(with_environment(name, {}), _Loader)
    return found


class Evaluation:
    """A template with values for its parameters."""

    def __init__(self, name: str, values: dict[str, str]) -> None:
        self.template = template(name)
        self.values = checked(with_environment(name, {}), values, {})

    def objections(self) -> list[str]:
        """Return the descriptions of the rules' assertions that fail."""
        return [
            assertion["AssertDescription"]
            for rule in self.template.get("Rules", {}).values()
            if self.value(rule["RuleCondition"])
            for assertion in rule["Assertions"]
            if not self.value(assertion["Assert"])
        ]

    def requests(self) -> dict[str, dict[str, Any]]:
        """Return the request for each resource by its name, after botocore has checked it."""
        return {
            name: self._request(name, resource)
            for name, resource in self.template["Resources"].items()
            if "Condition" not in resource or self._condition(resource["Condition"])
        }

    def _request(self, name: str, resource: dict[str, Any]) -> dict[str, Any]:
        service, call, field = CALLS[resource["Type"]]
        request = self.value(resource["Properties"]) | ({field: name} if field else {})
        if request.pop("ScalingTargetId", None):
            target = self.value(self.template["Resources"]["Instances"]["Properties"])
            request |= {key: target[key] for key in ("ServiceNamespace", "ScalableDimension", "ResourceId")}
        shape = _service(service).operation_model(call).input_shape
        request = _typed(request, shape)
        validate_parameters(request, shape)
        return dict(request)

    def _condition(self, name: str) -> bool:
        return bool(self.value(self.template["Conditions"][name]))

    def value(self, node: Any) -> Any:
        """Return a part of the template without functions."""
        if isinstance(node, list):
            return [value for value in map(self.value, node) if value is not NOTHING]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if function := getattr(self, f"_fn_{name.lower()}", None):
                return function(argument)
        found = {key: self.value(value) for key, value in node.items()}
        return {key: value for key, value in found.items() if value is not NOTHING}

    def _fn_ref(self, name: str) -> Any:
        if name not in self.values:
            return {"AWS::NoValue": NOTHING, "AWS::StackName": "digits"}.get(name, name)
        value = self.values[name]
        return value.split(",") if self.template["Parameters"][name]["Type"] == "CommaDelimitedList" else value

    def _fn_getatt(self, name: str) -> str:
        return name.partition(".")[0]

    def _fn_condition(self, name: str) -> bool:
        return self._condition(name)

    def _fn_if(self, parts: list[Any]) -> Any:
        return self.value(parts[1] if self._condition(parts[0]) else parts[2])

    def _fn_equals(self, parts: list[Any]) -> bool:
        first, second = map(self.value, parts)
        return str(first) == str(second)

    def _fn_contains(self, parts: list[Any]) -> bool:
        return self.value(parts[1]) in parts[0]

    def _fn_not(self, parts: list[Any]) -> bool:
        return not self.value(parts[0])

    def _fn_and(self, parts: list[Any]) -> bool:
        return all(map(self.value, parts))

    def _fn_or(self, parts: list[Any]) -> bool:
        return any(map(self.value, parts))

    def _fn_select(self, parts: list[Any]) -> Any:
        return self.value(parts[1])[parts[0]]

    def _fn_split(self, parts: list[Any]) -> list[str]:
        return str(self.value(parts[1])).split(parts[0])

    def _fn_join(self, parts: list[Any]) -> str:
        return str(parts[0]).join(self.value(parts[1]))

    def _fn_findinmap(self, parts: list[Any]) -> Any:
        name, first, second = map(self.value, parts)
        return self.template["Mappings"][name][first][second]

    def _fn_sub(self, argument: Any) -> str:
        text, names = argument if isinstance(argument, list) else (argument, {})

        def put_in(found: re.Match[str]) -> str:
            return str(self.value(names[found[1]]) if found[1] in names else self._fn_ref(found[1].partition(".")[0]))

        return re.sub(r"\$\{([\w:.]+)\}", put_in, text)


def _typed(value: Any, shape: Any) -> Any:
    """Return a value with the types of an API's shape: in CloudFormation a number may be text."""
    if shape.type_name == "structure" and isinstance(value, dict):
        return {
            name: _typed(part, shape.members[name]) if name in shape.members else part for name, part in value.items()
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [_typed(part, shape.member) for part in value]
    if isinstance(value, str) and shape.type_name in {"integer", "long"}:
        return int(value)
    if isinstance(value, str) and shape.type_name in {"float", "double"}:
        return float(value)
    return value


@functools.cache
def _service(name: str) -> Any:
    return botocore.session.get_session().get_service_model(name)


def requests_of(name: str = "endpoint", **values: str) -> dict[str, dict[str, Any]]:
    """Return the requests of a template with the usual parameters and these; they break no rule."""
    evaluation = Evaluation(name, GIVEN | values)
    assert evaluation.objections() == []
    return evaluation.requests()
