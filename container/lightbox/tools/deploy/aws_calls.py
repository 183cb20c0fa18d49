"""Calls to AWS, each said aloud; with ``dry_run`` printed and checked instead of made."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from lightbox.base.telemetry import say
from lightbox.tools.deploy import api_limits as limits

NOT_THERE = ("could not find", "does not exist", "not found", "no scalable target", "nosuchkey", "404")


class Refused(Exception):
    """The operation failed; the message is a sentence for the operator."""


class Aws:
    """A region of an account, as boto3's usual credentials give it."""

    def __init__(self, region: str | None = None, *, dry_run: bool = False) -> None:
        self.dry_run = dry_run
        self._session = boto3.Session(region_name=region)
        self.region: str = self._session.region_name or "us-east-1"
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """Return boto3's client of a service."""
        if service not in self._clients:
            # A dry run signs nothing and needs no credentials.
            keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"} if self.dry_run else {}
            self._clients[service] = self._session.client(service, region_name=self.region, **keys)
        return self._clients[service]

    def call(self, service: str, operation: str, **request: Any) -> dict[str, Any]:
        """Make a call and return its response; a dry run checks the request, prints it, and returns {}.

        Raises botocore's ClientError, and Refused for a request that botocore's own model forbids.
        """
        self.check(service, operation, **request)
        if not self.dry_run:
            answer: dict[str, Any] = getattr(self.client(service), operation)(**request)
            return answer
        shown = {key: f"<{len(value)} bytes>" if isinstance(value, bytes) else value for key, value in request.items()}
        print(f"-- {service} {self._named(service, operation)}\n{json.dumps(shown, indent=2)}", flush=True)
        return {}

    def check(self, service: str, operation: str, **request: Any) -> None:
        """Raise Refused with every sentence that botocore's model of the API has against a request."""
        name = self._named(service, operation)
        shape = self.client(service).meta.service_model.operation_model(name).input_shape
        report = ParamValidator().validate(request, shape)
        objections = [report.generate_report()] if report.has_errors() else list(limits.beyond(request, shape))
        if objections:
            raise Refused(f"{service} {name}: {'; '.join(objections)}")

    def _named(self, service: str, operation: str) -> str:
        return str(self.client(service).meta.method_to_api_mapping[operation])

    def find(self, service: str, operation: str, **request: Any) -> dict[str, Any] | None:
        """Return the response of a describing call, None when the thing is not there; a dry run finds nothing."""
        if self.dry_run:
            return None
        try:
            return self.call(service, operation, **request)
        except ClientError as error:
            text = f"{error.response['Error'].get('Code', '')} {error.response['Error'].get('Message', '')}".lower()
            if any(words in text for words in NOT_THERE):
                return None
            raise

    def names(self, operation: str, field: str, contains: str) -> list[str]:
        """Return the names of SageMaker's things that contain a text, by a listing call; a dry run finds none."""
        if self.dry_run:
            return []
        pages = self.client("sagemaker").get_paginator(operation).paginate(NameContains=contains)
        return [
            entry[field] for page in pages for key, entries in page.items() if key.endswith("s") for entry in entries
        ]

    def ensure(self, what: str, find: Callable[[], object], make: Callable[[], object]) -> None:
        """Make something unless it is there already, and say which."""
        if find() is not None:
            say.progress(f"{what}: already there")
            return
        make()
        say.progress(f"{what}: {'would be made' if self.dry_run else 'made'}")

    def account(self) -> str:
        """Return the account's number; a dry run, without requests, returns 123456789012."""
        return str(self.call("sts", "get_caller_identity").get("Account", "123456789012"))
