"""Certificates for tests: authorities and the certificates that they sign."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lightbox.base.machine.shared_files import replace_file

_PEM = serialization.Encoding.PEM
# Python 3.13 requires a key usage in an authority, and the authority's key identifier in a certificate.
_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


def key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None = None) -> bytes:
    """Return a key as openssl writes it."""
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)


class Authority:
    """Signs certificates. ``pem`` is its own certificate."""

    def __init__(self, name: str = "Authority of a test", days: int = 30) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        own = self._builder(self._name, self._key, days).add_extension(x509.BasicConstraints(True, None), critical=True)
        own = own.add_extension(_SIGNS, critical=True)
        own = own.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        self.pem = own.sign(self._key, hashes.SHA256()).public_bytes(_PEM)

    def issue(self, name: str = "lightbox.test", days: int = 30) -> tuple[bytes, bytes]:
        """Return a certificate and its key, for this machine and a name; with negative ``days`` it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        begun = self._builder(subject, key, days).add_extension(x509.SubjectAlternativeName(names), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        begun = begun.add_extension(issuer, critical=False)
        return begun.sign(self._key, hashes.SHA256()).public_bytes(_PEM), key_pem(key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
        )


def write_pair(folder: Path, pair: tuple[bytes, bytes]) -> Path:
    """Write ``tls.crt`` and ``tls.key`` into a folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in zip(("tls.crt", "tls.key"), pair, strict=True):
        replace_file(folder / name, content)
    return folder


def mount(folder: Path, number: int, pair: tuple[bytes, bytes]) -> Path:
    """Put a pair into a folder as Kubernetes mounts a secret: links to files through a link that is replaced."""
    write_pair(folder / f"..{number}", pair)
    link = folder / "..data_tmp"
    link.symlink_to(f"..{number}")
    link.replace(folder / "..data")
    for name in ("tls.crt", "tls.key"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    return folder
