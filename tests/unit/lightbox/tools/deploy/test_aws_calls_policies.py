"""The IAM policies allow the actions of lightbox deploy, and no more."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest

from support.deployment import REGION
from support.stack import REPOSITORY

POLICIES = sorted((REPOSITORY / "deploy" / "iam").glob("*.json"))
SOURCES = list((REPOSITORY / "container" / "lightbox" / "tools" / "deploy").glob("*.py"))
NO_NARROWER_RESOURCE = {
    "application-autoscaling:DeregisterScalableTarget",
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:PutScalingPolicy",
    "application-autoscaling:RegisterScalableTarget",
    "cloudwatch:PutMetricData",
    "ecr:GetAuthorizationToken",
    "sagemaker:ListEndpointConfigs",
    "sagemaker:ListInferenceComponents",
    "sagemaker:ListModels",
    "sts:GetCallerIdentity",
}
NEEDED_BUT_NOT_CALLED = {
    # docker push
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
    # large uploads in parts; HeadObject, and its 404 instead of 403
    "s3:AbortMultipartUpload",
    "s3:GetObject",
    "s3:ListBucket",
    # required by CreateModel with tags and a role, and by scaling
    "iam:CreateServiceLinkedRole",
    "iam:PassRole",
    "sagemaker:AddTags",
    "sagemaker:UpdateEndpointWeightsAndCapacities",
    "cloudwatch:DescribeAlarms",
}
PREFIX = {"sagemaker-runtime": "sagemaker"}


PLACES = {"REGION": REGION, "ACCOUNT": "123456789012", "BUCKET": "my-bucket", "ENDPOINT": "digits"}


def filled_in(path: Path) -> str:
    return re.sub("|".join(PLACES), lambda found: PLACES[found[0]], path.read_text())


def statements(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["Statement"]
    return found


def actions(statement: dict[str, Any]) -> set[str]:
    listed = statement["Action"]
    return {listed} if isinstance(listed, str) else set(listed)


def called() -> set[str]:
    """Return every call in the sources, by its action's name."""
    text = "\n".join(path.read_text() for path in SOURCES)
    calls = set(re.findall(r'(?:call|find)\(\s*"([a-z0-9-]+)",\s*"([a-z_]+)"', text))
    calls |= {("application-autoscaling", name) for name in re.findall(r'SERVICE,\s*"([a-z_]+)"', text)}
    calls |= {("sagemaker", name) for name in re.findall(r'"(list_[a-z_]+)"', text)}
    camel = {(service, "".join(word.title() for word in name.split("_"))) for service, name in calls}
    return {f"{PREFIX.get(service, service)}:{name}" for service, name in camel} - {"s3:HeadObject"}


def test_the_deployer_may_do_what_the_script_does_and_no_more() -> None:
    allowed = set().union(*map(actions, statements(REPOSITORY / "deploy" / "iam" / "deployer-policy.json")))
    assert len(called()) > 15
    assert allowed == called() | NEEDED_BUT_NOT_CALLED


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
