"""TLS files: reading, refused files, and reloading after a change."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from lightbox.nginx.configuration import render
from lightbox.nginx.tls import Identity, TlsError, TlsWatch, identify
from lightbox.serving.settings_loading import load_settings
from lightbox.supervisor.starting.start_checks import find_warnings
from support.certificates import Authority, key_pem, write_pair
from support.stack import REPOSITORY

AUTHORITY = Authority()
PAIR, OTHER = AUTHORITY.issue(), AUTHORITY.issue("other.test")
NOWHERE = {"SIDECAR": "unix:a", "HEALTH": "unix:b"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_pair(tmp_path / "tls", PAIR)


def identity(**variables: object) -> Identity | None:
    return identify(load_settings({f"LIGHTBOX_TLS_{name}": str(value) for name, value in variables.items()}))


def refusal(**variables: object) -> list[str]:
    """Return the errors of a refused start."""
    with pytest.raises(TlsError) as refused:
        identity(**variables)
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    "variables",
    [
        {"CERT": "."},
        {"CERT": "tls.crt", "KEY": "tls.key"},
        {"CERT": "tls.crt", "KEY": "."},
        {"CERT": ".", "KEY": "tls.key"},
        {"CERT": "both.pem"},
    ],
)
def test_a_folder_files_and_one_file_name_a_pair(folder: Path, variables: dict[str, str]) -> None:
    (folder / "both.pem").write_bytes(PAIR[1] + PAIR[0] + AUTHORITY.pem)
    found = identity(**{name: folder / value for name, value in variables.items()})
    assert str(found).startswith("TLS: the certificate of commonName=lightbox.test for localhost, 127.0.0.1, until 2")
    assert str(found).endswith(" UTC; client certificates: not requested")


def test_the_pages_recipe_makes_a_pair(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "tls.md").read_text()
    (recipe,) = re.findall(r"```bash\n(mkdir -p tls\n.*?)```", page, re.S)
    subprocess.run(["bash", "-ec", recipe], cwd=tmp_path, check=True, capture_output=True)
    assert "the certificate of commonName=localhost for localhost, 127.0.0.1, until" in str(
        identity(CERT=tmp_path / "tls")
    )


def test_what_is_missing_beside_another_variable_is_named(folder: Path) -> None:
    (said,) = refusal(KEY=folder / "tls.key")
    assert said.startswith("LIGHTBOX_TLS_CERT: expected the certificate of this port beside LIGHTBOX_TLS_KEY=")
    (said,) = refusal(CLIENT_CA=folder)
    assert said.startswith("LIGHTBOX_TLS_CERT: expected the certificate of this port beside LIGHTBOX_TLS_CLIENT_CA=")
    (said,) = refusal(CERT=folder / "tls.crt")
    assert said.startswith(f"LIGHTBOX_TLS_KEY: it is not set, and {folder}/tls.crt holds no key: expected PEM")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("tls.crt", None, "LIGHTBOX_TLS_CERT: expected a file in PEM, {} cannot be read: No such file or directory"),
        ("tls.crt", b"\x30\x82", "LIGHTBOX_TLS_CERT: {} holds no certificate: expected PEM, a text with -----BEGIN"),
        ("tls.crt", PAIR[0][:400] + PAIR[0][500:], "LIGHTBOX_TLS_CERT: {} holds a damaged certificate: "),
        ("tls.crt", PAIR[0] + OTHER[0][:400], "LIGHTBOX_TLS_CERT: {} holds a damaged certificate: "),
        ("tls.key", None, "LIGHTBOX_TLS_KEY: expected a file in PEM, {} cannot be read: No such file or directory"),
        ("tls.key", PAIR[0], "LIGHTBOX_TLS_KEY: {} holds no key: expected PEM, a text with -----BEGIN PRIVATE KEY"),
        ("tls.key", PAIR[1][:100], "LIGHTBOX_TLS_KEY: OpenSSL cannot use {}: "),
        ("tls.key", OTHER[1], "LIGHTBOX_TLS_KEY: expected the key of the certificate in "),
        (
            "tls.key",
            key_pem(ec.generate_private_key(ec.SECP256R1()), b"secret"),
            "LIGHTBOX_TLS_KEY: {} holds an encrypted key: expected one without a passphrase",
        ),
        ("ca.crt", None, "LIGHTBOX_TLS_CLIENT_CA: expected a file in PEM, {} cannot be read: No such file or"),
        ("ca.crt", PAIR[1], "LIGHTBOX_TLS_CLIENT_CA: {} holds no certificate: expected PEM"),
    ],
    ids=[
        "no certificate",
        "DER",
        "damaged certificate",
        "damaged chain",
        "no key",
        "a certificate as key",
        "damaged key",
        "another key",
        "encrypted key",
        "no authority",
        "a key as authority",
    ],
)
def test_a_file_that_cannot_be_used_is_named(folder: Path, file: str, content: bytes | None, said: str) -> None:
    (folder / "ca.crt").write_bytes(AUTHORITY.pem)
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    (sentence,) = refusal(CERT=folder, CLIENT_CA=folder)
    assert sentence.startswith(said.format(folder / file))


def test_a_key_that_the_user_cannot_read_is_reported_with_the_user(folder: Path) -> None:
    (folder / "tls.key").chmod(0)
    before = os.geteuid()
    user = before or 65534  # root can read all files; another user cannot list the folders of this test
    os.seteuid(user)
    try:
        said = refusal(CERT=folder / "tls.crt", KEY=folder / "tls.key")
    finally:
        os.seteuid(before)
    expected = f"{folder}/tls.key cannot be read by the user {user}, who runs Lightbox: let that user read it"
    assert said[-1] == f"LIGHTBOX_TLS_KEY: {expected}"


def test_an_expired_certificate_is_a_warning(tmp_path: Path) -> None:
    def warnings(days: int) -> list[str]:
        write_pair(tmp_path / "tls", AUTHORITY.issue(days=days))
        settings = load_settings({"LIGHTBOX_TLS_CERT": str(tmp_path / "tls"), "SAGEMAKER_MULTI_MODEL": "true"})
        return [warning for warning in find_warnings(settings) if not warning.startswith("nginx ")]

    assert warnings(1) == []
    (warning,) = warnings(-1)
    assert warning.startswith("LIGHTBOX_TLS_CERT: the certificate of commonName=lightbox.test for localhost")
    assert "has expired" in warning


def test_an_authority_that_has_expired_or_is_none_is_a_warning(folder: Path) -> None:
    def warnings(*certificates: bytes) -> list[str]:
        (folder / "ca.crt").write_bytes(b"".join(certificates))
        variables = {"LIGHTBOX_TLS_CERT": str(folder), "LIGHTBOX_TLS_CLIENT_CA": str(folder)}
        settings = load_settings({**variables, "SAGEMAKER_MULTI_MODEL": "true"})
        return [warning for warning in find_warnings(settings) if not warning.startswith("nginx ")]

    assert warnings(AUTHORITY.pem) == []
    (expired,) = warnings(AUTHORITY.pem, Authority("Old authority", days=-1).pem)
    assert expired.startswith("LIGHTBOX_TLS_CLIENT_CA: the certificate of commonName=Old authority has expired")
    (other,) = warnings(PAIR[0], AUTHORITY.pem)
    assert other.startswith("LIGHTBOX_TLS_CLIENT_CA: expected certificates of authorities")
    assert other.endswith("got 1 of others")


def test_nginx_gets_a_copy_that_nobody_else_can_read(folder: Path, tmp_path: Path) -> None:
    (folder / "ca.crt").write_bytes(AUTHORITY.pem)
    found = identity(CERT=folder, CLIENT_CA=folder)
    assert found is not None
    part = found.nginx(tmp_path)
    copied = [Path(part.places[name]) for name in ("TLS_CERT", "TLS_KEY", "TLS_CLIENT_CA")]
    assert [path.read_bytes() for path in copied] == [*PAIR, AUTHORITY.pem]
    assert {stat.S_IMODE(path.stat().st_mode) for path in copied} == {0o600}
    conf = render(load_settings({"LIGHTBOX_TLS_CERT": str(folder)}), tmp_path, NOWHERE, 1 << 28, parts=[part])
    assert f'ssl_certificate_key "{copied[1]}";' in conf
    assert "listen 8080 ssl http2 default_server" in conf


class Watched:
    """A watch of a folder that counts the reloads of nginx."""

    def __init__(self, folder: Path) -> None:
        self.renewals = 0
        self._watch = TlsWatch(load_settings({"LIGHTBOX_TLS_CERT": str(folder)}), self._renew)

    def _renew(self) -> None:
        self.renewals += 1

    def looks(self, times: int = 2) -> str:
        """Run the watch ``times`` times; return the subject of the certificate that nginx should use."""
        for _ in range(times):
            self._watch.look()
        assert self._watch.identity is not None
        return self._watch.identity.subject.partition(" ")[0].partition("=")[2]


def test_half_of_a_change_is_waited_out_in_silence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    watched = Watched(folder)
    (folder / "tls.crt").write_bytes(OTHER[0])
    assert watched.looks(1) == "lightbox.test"
    (folder / "tls.key").write_bytes(OTHER[1])
    assert (watched.looks(), watched.renewals) == ("other.test", 1)
    assert "cannot be used" not in capsys.readouterr().err


def test_a_pair_that_cannot_be_copied_is_tried_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = [True, True, False]

    def renew() -> None:
        if full.pop(0):
            raise OSError(28, "No space left on device")

    watch = TlsWatch(load_settings({"LIGHTBOX_TLS_CERT": str(folder)}), renew)
    write_pair(folder, OTHER)
    for _ in range(5):
        watch.look()
    said = capsys.readouterr().err
    assert said.count("cannot be copied, which is tried again: [Errno 28] No space left") == 2
    assert said.count("nginx loads them") == 1
