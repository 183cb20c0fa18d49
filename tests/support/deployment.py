"""What the tests of scripts/deployment share: a plan, and the one call of SageMaker's that moto does not have."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from moto.sagemaker.models import sagemaker_backends

from deployment.aws import Aws
from deployment.plan import Plan

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
        # Newer ones are unknown to moto.
        "instance_type": "ml.c5.xlarge",
    }
    return Plan(**(given | changes))


class UpdateEndpoint:
    """Answers UpdateEndpoint in moto's stead, with the states that follow; botocore has checked the request by then.

    The endpoint is Updating when it is next described, then InService with the new configuration, or with its old one
    and a reason if ``reason`` is given: rolled back.
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
