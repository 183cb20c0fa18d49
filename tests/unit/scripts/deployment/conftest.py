"""An account of moto's for every test of the deployment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from deployment.aws import Aws
from support.deployment import REGION


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield


@pytest.fixture
def aws(account: None) -> Aws:
    return Aws(REGION)
