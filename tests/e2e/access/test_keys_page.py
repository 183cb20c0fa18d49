"""docs/keys.md: the commands and snippets on the page work as described."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa

from lightbox.core.additions import IncomingRequest
from lightbox.features import FEATURES
from lightbox.features.access import Access
from lightbox.features.access.keys import parse
from lightbox.serving.settings_loading import load_settings
from support.http_server import QuietHandler, serving
from support.keys import outcome_of
from support.patience import PATIENCE, poll
from support.stack import REPOSITORY, Stack, free_port, running

PAGE = (REPOSITORY / "docs" / "keys.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def blocks(language: str, part: str) -> list[str]:
    return [text for kind, text in BLOCKS if kind == language and part in text]


def run(*command: str, cwd: Path = REPOSITORY, **environ: str) -> str:
    return subprocess.run(
        command, cwd=cwd, env=os.environ | environ, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True
    ).stdout


def made(folder: Path) -> str:
    """Make a key with the page's command and return it. Its line is in the folder's file ``keys``."""
    (text,) = blocks("bash", "openssl")
    return run("bash", "-ec", text, cwd=folder).strip()


def test_the_lines_of_the_page_are_keys(tmp_path: Path) -> None:
    key = made(tmp_path)
    assert re.fullmatch("[0-9a-f]{64}", key)
    (caller,) = parse((tmp_path / "keys").read_text())
    assert (caller.name, sorted(caller.roles)) == ("ci", ["infer", "metrics"])
    (example,) = blocks("text", "# A comment")
    assert [caller.name for caller in parse(example)] == ["ci", "grafana"]


@pytest.fixture(scope="module")
def keyed_digits(sample_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, str]]:
    folder = tmp_path_factory.mktemp("page")
    key = made(folder)
    environ = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "digits", "LIGHTBOX_API_KEYS": str(folder / "keys")}
    with running(sample_models, folder / "run", **environ) as stack:
        yield stack, key


@pytest.mark.extended
def test_curl_and_boto3_send_a_key(keyed_digits: tuple[Stack, str]) -> None:
    stack, key = keyed_digits
    (curl,), (boto3,) = blocks("bash", "curl"), blocks("python", "boto3")
    lines = curl.replace("localhost:8080", f"127.0.0.1:{stack.port}").strip().splitlines()
    assert len(lines) == 3
    for line in lines:
        assert json.loads(run("bash", "-ec", line, KEY=key))["name"] == "digits"
    printed = run(sys.executable, "-W", "ignore", "-c", boto3.replace(":8080", f":{stack.port}"), KEY=key)
    assert len(json.loads(printed)["predictions"][0]) == 10


class Issuer:
    """Signs tokens, and publishes its key at ``url``."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.jwks = json.dumps({"keys": [public | {"kid": "one", "use": "sig"}]}).encode()
        self.url = ""

    def token(self, seconds: float = 3600, key: Any = None, **claims: Any) -> str:
        claims = {"aud": "lightbox", "sub": "ann", "roles": ["infer"], "exp": time.time() + seconds} | claims
        return jwt.encode(claims, key or self.key, "RS256", {"kid": "one"})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    found = Issuer()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(found.jwks)

    with serving(Handler) as found.url:
        yield found


@pytest.fixture
def jwt_service(issuer: Issuer) -> Iterator[str]:
    """Run the page's service for the issuer. Yield its URL."""
    (text,), port = blocks("python", "PyJWKClient"), free_port()
    environ = os.environ | {"JWKS_URL": issuer.url, "PORT": str(port)}
    with subprocess.Popen([sys.executable, "-c", text], env=environ, stderr=subprocess.DEVNULL) as process:
        for _ in poll():
            try:
                requests.get(f"http://127.0.0.1:{port}", timeout=PATIENCE)
                break
            except requests.ConnectionError:
                assert process.poll() is None
        yield f"http://127.0.0.1:{port}"
        process.kill()


@pytest.mark.extended
def test_the_service_for_jwts_lets_in_whom_the_issuer_names(issuer: Issuer, jwt_service: str) -> None:
    authenticator = Access(FEATURES).authenticator(load_settings({"LIGHTBOX_AUTH_URL": jwt_service}))
    assert authenticator is not None

    def outcome(token: str, path: str = "/invocations") -> str:
        return outcome_of(authenticator, IncomingRequest("GET", path, {"authorization": f"Bearer {token}"}))

    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert outcome(issuer.token()) == "ann"
    assert outcome(issuer.token(), "/metrics") == "permission_denied"
    assert outcome(issuer.token(roles=["metrics"]), "/metrics") == "ann"
    for wrong in (
        issuer.token(seconds=-3600),
        issuer.token(aud="other"),
        issuer.token(key=other),
        jwt.encode({"aud": "lightbox", "sub": "ann"}, "", "none", {"kid": "one"}),
        jwt.encode({"aud": "lightbox", "sub": "ann", "roles": ["infer"]}, issuer.key, "RS256", {"kid": "one"}),
        "no.jwt.at all",
        "",
    ):
        assert outcome(wrong) == "unauthenticated", wrong
