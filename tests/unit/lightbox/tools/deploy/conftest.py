"""A moto account for every test of the deployment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import yaml
from botocore.loaders import JSONFileLoader
from moto import mock_aws

from support.deployment import REGION


@pytest.fixture(scope="session", autouse=True)
def files_read_once() -> Iterator[None]:
    """Read boto3's JSON about each service once, which is megabytes for every session, and so the templates."""
    read = cache(JSONFileLoader().load_file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda self, path: read(path))
        patch.setattr(yaml, "load", cache(yaml.load))
        yield


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield
