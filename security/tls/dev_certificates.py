"""Certificates for trying out: an authority, a broker's and a client's (`eosin certs dev`, security.md 8.2).

Their subjects say DEV, and the authority's key is not kept: nobody can issue more of them.
"""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ORGANIZATION: Final = "Eosin DEV"
DAYS: Final = 365

_SKEW: Final = timedelta(hours=1)


def make(names: Sequence[str], *, client: str, now: datetime) -> dict[str, bytes]:
    """The content of each file by its name: `ca.pem`, `broker.pem` and `client.pem`, each of the latter with its key.

    `names` are host names and addresses of the broker; `client` is the client's common name."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("authority", key, _name("authority"), key, now, usage=None, names=())
    files = {"ca.pem": authority.public_bytes(serialization.Encoding.PEM)}
    for name, common_name, usage, alternatives in (
        ("broker.pem", "broker", ExtendedKeyUsageOID.SERVER_AUTH, names),
        ("client.pem", client, ExtendedKeyUsageOID.CLIENT_AUTH, ()),
    ):
        own = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(common_name, own, authority.subject, key, now, usage=usage, names=alternatives)
        private = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        files[name] = private + made.public_bytes(serialization.Encoding.PEM)
    return files


def is_dev(certificate: x509.Certificate) -> bool:
    """True if this module made the certificate."""
    return any(
        each.value == ORGANIZATION for each in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _certificate(
    common_name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    *,
    usage: x509.ObjectIdentifier | None,
    names: Sequence[str],
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=usage is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_alternative(each) for each in names]), critical=False
        )
    return builder.sign(issuer_key, hashes.SHA256())


def _alternative(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
