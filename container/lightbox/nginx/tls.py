"""TLS of nginx's ports: the certificate and its key are checked before nginx gets them, and followed while it runs.

nginx reads copies in the run directory, so that it never sees a partial change.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import ssl
import time
from _ssl import _test_decode_cert  #  type: ignore[attr-defined]  # no public function reads a certificate
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightbox.base.errors import StartError
from lightbox.base.machine.shared_files import replace_file
from lightbox.base.settings import Settings
from lightbox.base.telemetry.logs import log
from lightbox.core.additions import NginxParts

CERT, KEY, CLIENT_CA = "LIGHTBOX_TLS_CERT", "LIGHTBOX_TLS_KEY", "LIGHTBOX_TLS_CLIENT_CA"
FILES = {CERT: "tls.crt", KEY: "tls.key", CLIENT_CA: "ca.crt"}
"""File names in a folder, as in Kubernetes' secrets and in our copy."""
LOOK_SECONDS = 2.0
"""Seconds between two checks. Files that are equal in two checks are complete."""
_KEY_BEGINS = re.compile(rb"-----BEGIN ([A-Z]+ )*PRIVATE KEY-----")
_ENCRYPTED = re.compile(rb"-----BEGIN ENCRYPTED |^Proc-Type: 4,ENCRYPTED", re.M)

CIPHERS = ":".join(
    f"ECDHE-{key}-{cipher}"
    for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
    for key in ("ECDSA", "RSA")
)


class TlsError(StartError):
    """Unusable TLS files; the message has a line for each problem, which names the variable."""


@dataclass(frozen=True)
class Identity:
    """nginx's certificate, and the authorities that it trusts. ``files`` are the PEM contents by variable; ``expires``
    is in seconds since 1970."""

    files: Mapping[str, bytes]
    subject: str
    expires: float

    def __str__(self) -> str:
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.expires))
        clients = "required" if CLIENT_CA in self.files else "not requested"
        return f"TLS: the certificate of {self.subject}, until {until}; client certificates: {clients}"

    def nginx(self, folder: Path) -> NginxParts:
        """Write the files below ``folder``, and return the part of nginx.conf that uses them. Raises OSError."""
        content = b"".join(self.files.values())
        copy = folder / f"tls-{hashlib.sha256(content).hexdigest()[:16]}"
        copy.mkdir(0o700, exist_ok=True)
        for variable, data in self.files.items():
            replace_file(copy / FILES[variable], data)
        places = {variable.removeprefix("LIGHTBOX_"): str(copy / name) for variable, name in FILES.items()}
        conf = Path(__file__).with_name("tls.conf").read_text()
        clients = ""
        if CLIENT_CA in self.files:
            conf += Path(__file__).with_name("tls_clients.conf").read_text()
            clients = "if ($without_certificate) { return 496; }"
        # A resumed session shows no certificate: it would outlive the authority and the client's certificate.
        sessions = "off" if CLIENT_CA in self.files else "shared:tls:10m"
        conf = conf.replace("@TLS_CIPHERS@", CIPHERS).replace("@TLS_SESSIONS@", sessions)
        return NginxParts(conf, places=places, clients=clients)


def identify(settings: Settings) -> Identity | None:
    """Return the content of the files, None if TLS is off. Raises TlsError."""
    return _judge(settings, _contents(settings))


def variables(settings: Settings) -> list[str]:
    """Return the TLS variables that are set."""
    given = ((CERT, settings.tls_cert), (KEY, settings.tls_key), (CLIENT_CA, settings.tls_client_ca))
    return [variable for variable, path in given if path is not None]


def warnings(settings: Settings) -> list[str]:
    """Return warnings that do not stop a start: an expired certificate, which some clients accept, and an expired or
    unsuitable certificate among the authorities of clients."""
    identity = identify(settings)
    if identity is None:
        return []
    fields = []
    if identity.expires <= time.time():
        fields.append(f"{CERT}: the certificate of {identity.subject} has expired; most clients refuse it")
    if CLIENT_CA in identity.files:
        trusted = _trusted(identity.files[CLIENT_CA])
        authorities = trusted.get_ca_certs()
        fields += [
            f"{CLIENT_CA}: the certificate of {_subject(one)} has expired; what it has signed is refused"
            for one in authorities
            if ssl.cert_time_to_seconds(str(one["notAfter"])) <= time.time()
        ]
        if others := trusted.cert_store_stats()["x509"] - len(authorities):
            fields.append(
                f"{CLIENT_CA}: expected certificates of authorities, which sign others; got {others} of others"
            )
    return fields


class TlsWatch:
    """Follows the files. ``identity`` is nginx's current identity; ``renew`` makes nginx load it."""

    def __init__(self, settings: Settings, renew: Callable[[], object]) -> None:
        """Raise TlsError if the files cannot be used."""
        self._settings = settings
        self._renew = renew
        self._seen = self._judged = _contents(settings)
        self.identity = _judge(settings, self._seen)

    async def follow(self) -> None:
        """Check the files, forever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Let nginx load the files if they have changed, are equal in two checks, and are usable."""
        now = _contents(self._settings)
        settled, self._seen = now == self._seen, now
        if now == self._judged or not settled:
            return
        self._judged = now
        try:
            self.identity = _judge(self._settings, now)
            self._renew()
        except TlsError as error:
            log(f"TLS: the files have changed and cannot be used, nginx keeps the old ones:\n{error}")
        except OSError as error:  # TMPDIR is full, say
            self._judged = {}
            log(f"TLS: the files have changed and cannot be copied, which is tried again: {error}")
        else:
            log(f"{self.identity}; the files have changed, nginx loads them")


def _paths(settings: Settings) -> dict[str, Path]:
    """Return the file of each variable that is set; the key may be in the certificate's file."""
    given = {CERT: settings.tls_cert, KEY: settings.tls_key or settings.tls_cert, CLIENT_CA: settings.tls_client_ca}
    return {name: _in_folder(path, FILES[name]) for name, path in given.items() if path}


def _in_folder(path: Path, name: str) -> Path:
    try:
        return path / name if path.is_dir() else path
    except PermissionError:  # reading the file reports it
        return path


def _contents(settings: Settings) -> dict[str, bytes | str]:
    """Return the content of each variable's file; a str says why it cannot be read."""
    contents: dict[str, bytes | str] = {}
    for variable, path in _paths(settings).items():
        try:
            contents[variable] = path.read_bytes()
        except PermissionError:
            user = f"the user {os.geteuid()}, who runs Lightbox"
            contents[variable] = f"{variable}: {path} cannot be read by {user}: let that user read it"
        except OSError as error:
            contents[variable] = f"{variable}: expected a file in PEM, {path} cannot be read: {error.strerror}"
    return contents


def _judge(settings: Settings, contents: Mapping[str, bytes | str]) -> Identity | None:
    """Return the content of the files, None if TLS is off; raise TlsError with all problems."""
    if not settings.tls_cert:
        given = {KEY: settings.tls_key, CLIENT_CA: settings.tls_client_ca}
        if beside := next((f"{name}={path}" for name, path in given.items() if path), None):
            raise TlsError(f"{CERT}: expected the certificate of this port beside {beside}, got none")
        return None
    paths = _paths(settings)
    apart = paths[KEY] != paths[CERT]  # a problem of a shared file is reported once
    problems = [text for name, text in contents.items() if isinstance(text, str) and (apart or name != KEY)]
    files = {variable: content for variable, content in contents.items() if isinstance(content, bytes)}
    for variable in (CERT, CLIENT_CA):
        if variable in files and (problem := _problem_of_certificates(files[variable])):
            problems.append(f"{variable}: {paths[variable]} {problem}")
    if KEY in files and (problem := _problem_of_key(files[KEY])):
        problems.append(f"{KEY}: {'' if apart else 'it is not set, and '}{paths[KEY]} {problem}")
    if problems:
        raise TlsError("\n".join(problems))
    with _as_file(files[CERT]) as cert, _as_file(files[KEY]) as key:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise TlsError(
                    f"{KEY}: expected the key of the certificate in {paths[CERT]}, got another one in {paths[KEY]}"
                ) from None
            # For both, OpenSSL reports only a too weak key or signature at this point.
            variable = CERT if str(error.reason).startswith(("EE_", "CA_")) else KEY
            raise TlsError(f"{variable}: OpenSSL cannot use {paths[variable]}: {error.reason or error}") from None
        fields = _test_decode_cert(cert)
    return Identity(files, _subject(fields), ssl.cert_time_to_seconds(str(fields["notAfter"])))


def _problem_of_certificates(content: bytes) -> str | None:
    if b"-----BEGIN CERTIFICATE-----" not in content:
        return "holds no certificate: expected PEM, a text with -----BEGIN CERTIFICATE-----"
    try:
        _trusted(content)
    except ssl.SSLError as error:
        return f"holds a damaged certificate: {error.reason or error}"
    return None


def _trusted(content: bytes) -> ssl.SSLContext:
    """Return a context that trusts all certificates of a file: a chain, or several authorities. Raises ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=content.decode("ascii", "ignore"))
    return context


def _problem_of_key(content: bytes) -> str | None:
    if _ENCRYPTED.search(content):
        return "holds an encrypted key: expected one without a passphrase, as openssl pkey writes it"
    if not _KEY_BEGINS.search(content):
        return "holds no key: expected PEM, a text with -----BEGIN PRIVATE KEY-----"
    return None


def _subject(fields: Mapping[str, Any]) -> str:
    """Return a certificate's subject and the names for which clients accept it."""
    subject = ", ".join(f"{name}={value}" for part in fields.get("subject", ()) for name, value in part)
    names = ", ".join(value for _, value in fields.get("subjectAltName", ()))
    return " for ".join(filter(None, (subject, names))) or "nobody"


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield the path of an in-memory file, as OpenSSL needs one."""
    with os.fdopen(os.memfd_create("tls"), "wb", buffering=0) as file:
        file.write(content)
        yield f"/proc/self/fd/{file.fileno()}"
