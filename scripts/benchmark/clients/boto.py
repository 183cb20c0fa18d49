"""boto3's ``invoke_endpoint``, as callers of SageMaker use it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmark.clients.base import Load, Sample, run_one_by_one
from benchmark.servers.address import Address
from lightbox.client.boto import runtime_client
from lightbox.client.invoke import read_server_timing


@dataclass(frozen=True)
class Boto3Client:
    """Invokes an endpoint: the local one at the address, or ``endpoint`` of the account when that is given."""

    body: bytes = field(repr=False)
    content_type: str
    custom_attributes: str = ""
    endpoint: str | None = None
    region: str | None = None

    def open(self, address: Address | None) -> Boto3Session:
        """Return a session; without an address the endpoint is SageMaker's."""
        return Boto3Session(self, runtime_client(address.url if address else None, self.region))


class Boto3Session:
    """One boto3 client, one call after another."""

    def __init__(self, spec: Boto3Client, client: Any) -> None:
        self._spec = spec
        self._client = client

    def run(self, load: Load) -> Sample:
        """Put a load on the endpoint, with one client: several would share boto3's locks."""
        assert load.clients == 1 and load.rate is None, "boto3 is measured with one client"
        return run_one_by_one(load, self._call)

    def _call(self, sample: Sample) -> None:
        body, answer = self.invoke()
        sample.bytes_sent += len(self._spec.body)
        sample.bytes_received += len(body)
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        sample.add_stages(read_server_timing(headers.get("server-timing", "")))

    def invoke(self) -> tuple[bytes, dict[str, Any]]:
        """Make one call and return the answer's body and boto3's answer."""
        spec = self._spec
        more = {"CustomAttributes": spec.custom_attributes} if spec.custom_attributes else {}
        answer = self._client.invoke_endpoint(
            EndpointName=spec.endpoint or "local", Body=spec.body, ContentType=spec.content_type, **more
        )
        return answer["Body"].read(), answer

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()
