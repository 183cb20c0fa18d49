"""A stack of CloudFormation: its operations, and their events as progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from lightbox.base.telemetry import say

STARTS = {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"}
SHOWN = ("LogicalResourceId", "ResourceStatus", "ResourceStatusReason")
LEFT = {
    "ROLLBACK_COMPLETE": "no resource is left: delete the stack, then create it again",
    "UPDATE_ROLLBACK_COMPLETE": "the endpoint serves its previous configuration",
}
"""The consequence of a failed operation, by the state of the stack."""


class Stack:
    """A stack by its name, as boto3's client reaches it; the client's errors are raised."""

    def __init__(self, client: Any, name: str) -> None:
        self.name = name
        self._client = client

    def _describe(self, stack: str) -> dict[str, Any]:
        return dict(self._client.describe_stacks(StackName=stack)["Stacks"][0])

    def id(self) -> str:
        """Return its ID, which it keeps when it is deleted."""
        return str(self._describe(self.name)["StackId"])

    def parameters(self) -> dict[str, str]:
        """Return the values of its parameters."""
        found = self._describe(self.name).get("Parameters", [])
        return {entry["ParameterKey"]: entry["ParameterValue"] for entry in found}

    def template(self) -> str:
        """Return its template, as it was sent."""
        return str(self._client.get_template(StackName=self.name, TemplateStage="Original")["TemplateBody"])

    def create(self, template: str, values: dict[str, str]) -> None:
        """Create it and follow."""
        self.follow(self._client.create_stack(**self._request(template, values))["StackId"], set())

    def update(self, template: str, values: dict[str, str]) -> None:
        """Update it and follow."""
        self._change(self._client.update_stack, self._request(template, values))

    def delete(self) -> None:
        """Delete it and follow."""
        self._change(self._client.delete_stack, {"StackName": self.name})

    def _change(self, call: Callable[..., object], request: dict[str, Any]) -> None:
        stack = self.id()
        seen = {event["EventId"] for event in self._last_operation(stack)}
        call(**request)
        self.follow(stack, seen)

    def _request(self, template: str, values: dict[str, str]) -> dict[str, Any]:
        parameters = [{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()]
        tags = [{"Key": "application", "Value": "lightbox"}]
        return {"StackName": self.name, "TemplateBody": template, "Parameters": parameters, "Tags": tags}

    def follow(self, stack: str, seen: set[str]) -> None:
        """Print the unseen events of the last operation until it ends; raise click.ClickException if it has failed."""
        try:
            while True:
                state = self._describe(stack)["StackStatus"]
                events = self._last_operation(stack)
                for event in (event for event in events if event["EventId"] not in seen):
                    say.progress(": ".join(event[key] for key in SHOWN if key in event))
                seen = seen | {event["EventId"] for event in events}
                if not state.endswith("_IN_PROGRESS") or state == "REVIEW_IN_PROGRESS":
                    break
                time.sleep(5)
        except KeyboardInterrupt:
            click.echo(f"CloudFormation continues; to look at it: lightbox deploy status {self.name}", err=True)
            raise click.Abort from None
        if "ROLLBACK" in state or not state.endswith("_COMPLETE"):
            failed = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
            cause = ": ".join(failed[0].get(key, "?") for key in SHOWN) if failed else "no reason is given"
            group = "InferenceComponents" if "::InferenceComponent" in str(events) else "Endpoints"
            logs = f"logs of the containers: aws logs tail /aws/sagemaker/{group}/{self.name}"
            lines = (f"stack {self.name} is in state {state}; {cause}", LEFT.get(state), logs)
            raise click.ClickException("\n".join(filter(None, lines)))

    def _last_operation(self, stack: str) -> list[dict[str, Any]]:
        """Return the events since the last creation, update or deletion began, the oldest first."""
        events: list[dict[str, Any]] = []
        for page in self._client.get_paginator("describe_stack_events").paginate(StackName=stack):
            for event in page["StackEvents"]:
                events.insert(0, event)
                if event["PhysicalResourceId"] == event["StackId"] and event["ResourceStatus"] in STARTS:
                    return events
        return events
