"""A deployment's declaration, and the names that follow from it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum

from lightbox.tools.deploy.aws_calls import Refused

ENDPOINT_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,48}")
"""SageMaker allows 63 characters; the names of models and configurations add 13."""
VARIANT = "AllTraffic"
MOST_CONTAINERS = 15
"""Of one model: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-container-endpoints.html"""
_HOSTNAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")


class Kind(StrEnum):
    """How the endpoint takes requests."""

    REAL_TIME = "real-time"
    SERVERLESS = "serverless"
    ASYNCHRONOUS = "asynchronous"
    COMPONENTS = "components"


@dataclass(frozen=True)
class Plan:
    """An image with a model, and the machines that serve it.

    Two plans with the same content have the same names: deploying one twice makes nothing new.
    """

    endpoint: str
    image: str
    role: str
    model_data: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    kind: Kind = Kind.REAL_TIME
    instance_type: str = "ml.c6i.xlarge"
    instances: int = 1
    memory_mb: int = 4096
    concurrency: int = 10
    output: str | None = None
    startup_seconds: int = 480
    component: str = ""
    """Of an endpoint with inference components, the one that serves this model."""
    containers: dict[str, str] = field(default_factory=dict)
    """The model data of several containers by hostname, in place of ``model_data``; callers choose one of them."""
    multi_model: bool = False
    """Whether ``model_data`` is a folder of archives, which are loaded on first use."""

    def __post_init__(self) -> None:
        if not ENDPOINT_NAME.fullmatch(self.endpoint):
            raise Refused(f"endpoint {self.endpoint!r}: up to 49 letters, digits and hyphens between them are allowed")
        if self.kind is Kind.ASYNCHRONOUS and not self.output:
            raise Refused("an asynchronous endpoint needs --output s3://…, the folder for its answers")
        if self.component and not ENDPOINT_NAME.fullmatch(f"{self.endpoint}-{self.component}"):
            raise Refused(
                f"--component {self.component!r}: up to 49 letters, digits and hyphens, the endpoint's name included"
            )

        self._check_containers()

    def _check_containers(self) -> None:
        if self.multi_model and not (self.model_data and self.model_data.endswith("/")):
            raise Refused(f"--multi-model: expected --model-data s3://bucket/folder/, got {self.model_data}")
        if not (self.containers or self.multi_model):
            return
        option = "--container" if self.containers else "--multi-model"
        if self.kind is not Kind.REAL_TIME:
            raise Refused(f"{option}: expected a real-time endpoint, got {self.kind.value}")
        if not self.containers:
            return
        if self.model_data:
            raise Refused("--container: each has its model data; leave --model-data out")
        if not 2 <= len(self.containers) <= MOST_CONTAINERS:
            raise Refused(f"--container: expected 2 to {MOST_CONTAINERS} containers, got {len(self.containers)}")
        if wrong := [name for name in self.containers if not _HOSTNAME.fullmatch(name)]:
            raise Refused(f"--container {wrong[0]!r}: expected up to 63 letters, digits and hyphens between them")
        for name, url in self.containers.items():
            if not url.startswith("s3://"):
                raise Refused(f"--container {name}={url}: expected s3://… behind the hostname")

    @property
    def model_name(self) -> str:
        """Name of the model: it changes with image, model data and environment."""
        several = [self.containers or "multi-model"] if self.containers or self.multi_model else []
        return self._named([self.image, self.model_data, self.environment, self.role, *several])

    @property
    def config_name(self) -> str:
        """Name of the endpoint configuration: it changes with all of the plan."""
        content = "" if self.kind is Kind.COMPONENTS else self.model_name
        machines = [self.kind, self.instance_type, self.instances, self.memory_mb, self.concurrency, self.output]
        return self._named([content, *machines, self.startup_seconds])

    def _named(self, content: list[object]) -> str:
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f"{self.endpoint}-{digest[:12]}"
