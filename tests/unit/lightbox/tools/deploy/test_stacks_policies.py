"""The IAM policies allow what CloudFormation needs for the templates, on resources as narrow as IAM has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest

from lightbox.tools.deploy import stacks
from lightbox.tools.deploy.templates import TEMPLATES
from support.deployment import REGION, template
from support.stack import REPOSITORY

POLICIES = sorted((REPOSITORY / "deploy" / "iam").glob("*.json"))
DEPLOYER = REPOSITORY / "deploy" / "iam" / "deployer-policy.json"
NO_NARROWER_RESOURCE = {
    "application-autoscaling:DeleteScalingPolicy",
    "application-autoscaling:DeregisterScalableTarget",
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingPolicies",
    "application-autoscaling:DescribeScheduledActions",
    "application-autoscaling:ListTagsForResource",
    "application-autoscaling:PutScalingPolicy",
    "application-autoscaling:RegisterScalableTarget",
    "application-autoscaling:TagResource",
    "application-autoscaling:UntagResource",
    "cloudwatch:GetMetricData",
    "cloudwatch:PutMetricData",
    "ecr:GetAuthorizationToken",
}
NEVER_USED = {
    # for other services' targets, keys and schedules, and lists of all resources
    "application-autoscaling:DeleteScheduledAction",
    "application-autoscaling:PutScheduledAction",
    "kms:DescribeKey",
    "lambda:DeleteProvisionedConcurrencyConfig",
    "lambda:GetProvisionedConcurrencyConfig",
    "lambda:PutProvisionedConcurrencyConfig",
}
FOR_ITSELF = {"LogInToTheRegistry", "PushTheImage", "UploadTheArchive", "TellAMissingArchiveFromAForbiddenOne"}
FOR_ITSELF |= {"MakeAndChangeTheStack", "CallTheEndpointAndTransform"}
"""Statements of the deployer's policy for calls that CloudFormation does not make."""


PLACES = {"REGION": REGION, "ACCOUNT": "123456789012", "BUCKET": "my-bucket", "ENDPOINT": "digits"}


def filled_in(path: Path) -> str:
    return re.sub("|".join(PLACES), lambda found: PLACES[found[0]], path.read_text())


def statements(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["Statement"]
    return found


def actions(statement: dict[str, Any]) -> set[str]:
    listed = statement["Action"]
    return {listed} if isinstance(listed, str) else set(listed)


def test_the_deployer_may_make_the_calls_of_the_sources() -> None:
    calls = set(
        re.findall(r"(?:_client\.|paginator\(.)([a-z]+_stack\w*|get_template)", Path(stacks.__file__).read_text())
    )
    found = {statement["Sid"]: actions(statement) for statement in statements(DEPLOYER)}
    camel = {f"cloudformation:{''.join(word.title() for word in name.split('_'))}" for name in calls}
    assert len(camel) == 6
    assert camel <= found["MakeAndChangeTheStack"]


@pytest.mark.extended
def test_the_deployer_may_do_what_cloudformation_does_for_each_resource() -> None:
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    found = statements(DEPLOYER)
    allowed = set().union(*(actions(statement) for statement in found if statement["Sid"] not in FOR_ITSELF))
    needed: set[str] = set()
    for kind in {resource["Type"] for name in TEMPLATES for resource in template(name)["Resources"].values()}:
        handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema["handlers"]
        needed |= {permission for name in handlers.keys() - {"list"} for permission in handlers[name]["permissions"]}
    assert allowed == needed - NEVER_USED | {"sagemaker:UpdateEndpointWeightsAndCapacities"}


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_no_wildcard_stands_where_a_narrower_word_can(path: Path) -> None:
    for statement in statements(path):
        assert not any("*" in action for action in actions(statement))
        if statement.get("Resource") == "*":
            assert actions(statement) <= NO_NARROWER_RESOURCE


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_iam_takes_each_document_with_its_places_filled_in(path: Path) -> None:
    iam = boto3.client("iam")
    if path.stem.endswith("-trust"):
        iam.create_role(RoleName="lightbox-execution", AssumeRolePolicyDocument=filled_in(path))
    else:
        iam.create_policy(PolicyName="lightbox", PolicyDocument=filled_in(path))


def test_the_page_fills_in_every_place() -> None:
    page = (REPOSITORY / "deploy" / "iam" / "README.md").read_text()
    assert set(re.findall(r"s/([A-Z]+)/", page)) == PLACES.keys()
    left = {word for path in POLICIES for word in re.findall(r"\b[A-Z]{6,}\b", filled_in(path))}
    assert not left, f"places that nobody fills in: {left}"
