"""boto3's ``invoke_endpoint``, as callers of SageMaker use it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmark.clients import Call, Sample
from benchmark.servers import Address
from lightbox.tools.client.boto import runtime_client


@dataclass(frozen=True)
class Boto3Client:
    """Invokes an endpoint: the account's ``endpoint`` if given, else the one at ``url`` or the run's address."""

    body: bytes = field(repr=False)
    content_type: str
    custom_attributes: str = ""
    url: str | None = None
    endpoint: str | None = None
    region: str | None = None

    @asynccontextmanager
    async def connected(self, address: Address) -> AsyncIterator[Call]:
        """Make a boto3 client. It is synchronous: only loads with one client can use it."""
        boto3 = self._runtime(address.url)

        async def call(sample: Sample) -> None:
            body, answer = self._invoke(boto3)
            headers = answer["ResponseMetadata"]["HTTPHeaders"]
            sample.note(len(self.body), len(body), headers.get("server-timing", ""))

        try:
            yield call
        finally:
            boto3.close()

    def invoke(self) -> bytes:
        """Make one call and return the answer's body; raise botocore's ClientError."""
        return self._invoke(self._runtime(""))[0]

    def _runtime(self, url: str) -> Any:
        return runtime_client(None if self.endpoint else self.url or url, self.region)

    def _invoke(self, boto3: Any) -> tuple[bytes, dict[str, Any]]:
        more = {"CustomAttributes": self.custom_attributes} if self.custom_attributes else {}
        answer = boto3.invoke_endpoint(
            EndpointName=self.endpoint or "local", Body=self.body, ContentType=self.content_type, **more
        )
        return answer["Body"].read(), answer
