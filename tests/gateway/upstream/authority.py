"""A certificate authority of our own, and servers' certificates by it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

YEARS = timedelta(days=3650)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Authority:
    folder: Path
    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @property
    def file(self) -> str:
        return str(self.folder / "ca.pem")

    def server(self, *, host: str = "127.0.0.1", until: datetime | None = None) -> ssl.SSLContext:
        """What a server of that address or name speaks TLS with."""
        key = ec.generate_private_key(ec.SECP256R1())
        where: x509.GeneralName = x509.DNSName(host)
        if host[0].isdigit():
            where = x509.IPAddress(ip_address(host))
        builder = (
            _certificate(_named(host), self.name, key, until or LONG_AGO + 10 * YEARS)
            .add_extension(x509.SubjectAlternativeName([where]), critical=False)
            .add_extension(_issued_by(self.key), critical=False)
        )
        certificate = builder.sign(self.key, hashes.SHA256())
        path = self.folder / "server.pem"
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def make_authority(folder: Path) -> Authority:
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(f"authority of {folder.name}")
    own = _certificate(name, name, key, LONG_AGO + 10 * YEARS)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    own = own.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    own = own.add_extension(usage, critical=True)
    own = own.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    made = Authority(folder, name, key)
    Path(made.file).write_bytes(own.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return made


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _issued_by(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(LONG_AGO)
        .not_valid_after(until)
    )
