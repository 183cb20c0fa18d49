"""Inference components: models that share the machines of one endpoint, each with its own cores and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lightbox.base.telemetry import say
from lightbox.tools.deploy import requests
from lightbox.tools.deploy.aws_calls import Aws, Refused
from lightbox.tools.deploy.deployment import VARIANT, Plan
from lightbox.tools.deploy.waiting import log_url, wait_for

MOST_ENTRIES = 16
"""Variables that a component may have: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_InferenceComponentContainerSpecification.html
says "up to 16 entries"; botocore's model allows 100, as the same page's constraints do."""
_LATER = ("Failed", "InService")


@dataclass(frozen=True)
class Size:
    """The reservation of a component: copies, and for each of them cores and MB of memory."""

    cores: float = 1.0
    memory_mb: int = 2048
    copies: int = 1


def name_of(endpoint: str, component: str) -> str:
    """Return a component's whole name: it is unique in the account."""
    return f"{endpoint}-{component}"


def request(plan: Plan, size: Size) -> dict[str, Any]:
    """Return CreateInferenceComponent; raise Refused for more variables than a component may have."""
    if len(plan.environment) > MOST_ENTRIES:
        raise Refused(f"--env: a component has at most {MOST_ENTRIES} variables, got {len(plan.environment)}")
    return {
        "InferenceComponentName": name_of(plan.endpoint, plan.component),
        "EndpointName": plan.endpoint,
        "VariantName": VARIANT,
        "Specification": {
            "ModelName": plan.model_name,
            "StartupParameters": {"ContainerStartupHealthCheckTimeoutInSeconds": plan.startup_seconds},
            "ComputeResourceRequirements": {
                "NumberOfCpuCoresRequired": size.cores,
                "MinMemoryRequiredInMb": size.memory_mb,
                "MaxMemoryRequiredInMb": size.memory_mb,
            },
        },
        "RuntimeConfig": {"CopyCount": size.copies},
        "Tags": requests.TAGS,
    }


def place(aws: Aws, plan: Plan, size: Size, pause: float = 10.0) -> None:
    """Place the plan's model on its endpoint, or replace the model of its component; wait. Raises Refused."""
    wanted = request(plan, size)
    name = wanted["InferenceComponentName"]
    there = aws.find("sagemaker", "describe_inference_component", InferenceComponentName=name)
    if there is None:
        aws.call("sagemaker", "create_inference_component", **wanted)
        say.progress(f"component {name}: {'would be made' if aws.dry_run else 'made'}")
    elif there["Specification"].get("ModelName") == plan.model_name:
        say.progress(f"component {name}: already there")
    else:
        changed = {key: wanted[key] for key in ("InferenceComponentName", "Specification", "RuntimeConfig")}
        aws.call("sagemaker", "update_inference_component", **changed)
        say.progress(f"component {name}: its model is replaced")

    def state() -> str:
        return str(_described(aws, name)["InferenceComponentStatus"])

    if wait_for(aws, f"component {name}", state, set(_LATER), pause) == "Failed":
        group = f"/aws/sagemaker/InferenceComponents/{name}"
        reason = _described(aws, name).get("FailureReason", "no reason is given")
        raise Refused(f"component {name} is Failed: {reason}\nits log: {log_url(aws.region, group)}")


def _described(aws: Aws, name: str) -> dict[str, Any]:
    return aws.call("sagemaker", "describe_inference_component", InferenceComponentName=name)


def remove_all(aws: Aws, endpoint: str, pause: float = 10.0) -> None:
    """Delete the components of an endpoint and wait until they are gone: before, it cannot be deleted."""
    listed = aws.call("sagemaker", "list_inference_components", EndpointNameEquals=endpoint, MaxResults=100)
    for name in [entry["InferenceComponentName"] for entry in listed["InferenceComponents"]]:
        aws.call("sagemaker", "delete_inference_component", InferenceComponentName=name)

        def state(name: str = name) -> str:
            found = aws.find("sagemaker", "describe_inference_component", InferenceComponentName=name)
            return str(found["InferenceComponentStatus"]) if found else "deleted"

        wait_for(aws, f"component {name}", state, {"deleted", "Failed"}, pause)
