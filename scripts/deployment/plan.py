"""What is to be deployed, and the names that follow from it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum

from deployment.aws import Refused

ENDPOINT_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,48}")
"""SageMaker allows 63 characters; the names of models and configurations add 13."""
VARIANT = "AllTraffic"


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

    def __post_init__(self) -> None:
        if not ENDPOINT_NAME.fullmatch(self.endpoint):
            raise Refused(f"endpoint {self.endpoint!r}: up to 49 letters, digits and hyphens between them are allowed")
        if self.kind is Kind.ASYNCHRONOUS and not self.output:
            raise Refused("an asynchronous endpoint needs --output s3://…, the folder for its answers")
        if self.component and not ENDPOINT_NAME.fullmatch(f"{self.endpoint}-{self.component}"):
            raise Refused(
                f"--component {self.component!r}: up to 49 letters, digits and hyphens, the endpoint's name included"
            )

    @property
    def model_name(self) -> str:
        """Name of the model: it changes with image, model data and environment."""
        return self._named([self.image, self.model_data, self.environment, self.role])

    @property
    def config_name(self) -> str:
        """Name of the endpoint configuration: it changes with all of the plan."""
        content = "" if self.kind is Kind.COMPONENTS else self.model_name
        machines = [self.kind, self.instance_type, self.instances, self.memory_mb, self.concurrency, self.output]
        return self._named([content, *machines, self.startup_seconds])

    def _named(self, content: list[object]) -> str:
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f"{self.endpoint}-{digest[:12]}"
