"""Certificates of every kind that a test of TLS wants, made in memory and written where the test says."""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

SERVER = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH


def ec_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def ed25519_key() -> Key:
    return ed25519.Ed25519PrivateKey.generate()


@cache
def rsa_key(bits: int = 2048) -> Key:
    """One for all tests: RSA keys take long to make."""
    return rsa.generate_private_key(65537, bits)


def common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key and those above it, the root left out."""

    key: Key
    certificate: x509.Certificate
    above: tuple[x509.Certificate, ...] = ()

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        return (self.certificate, *self.above)

    def key_pem(self, password: str | None = None) -> bytes:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def chain_pem(self) -> bytes:
        return pem(*self.chain)

    def write(self, path: Path, password: str | None = None) -> str:
        """Key and chain in one file, as KIP-651 has it."""
        path.touch(mode=0o600)
        path.write_bytes(self.key_pem(password) + self.chain_pem())
        return str(path)

    def pkcs12(self, password: str) -> bytes:
        encryption = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"broker", self.key, self.certificate, self.above, encryption)


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


@dataclass(slots=True)
class Authority:
    """A CA, its own root or under another one."""

    issued: Issued
    revoked: list[x509.RevokedCertificate] = field(default_factory=list)

    @classmethod
    def root(cls, name: str = "test root") -> Self:
        key = ec_key()
        return cls(Issued(key, _certificate(common_name(name), key, common_name(name), key, is_authority=True)))

    def below(self, name: str = "test intermediate") -> "Authority":
        """An intermediate CA."""
        key = ec_key()
        made = _certificate(common_name(name), key, self.certificate.subject, self.issued.key, is_authority=True)
        return Authority(Issued(key, made, self._above()))

    @property
    def certificate(self) -> x509.Certificate:
        return self.issued.certificate

    def write(self, path: Path) -> str:
        """The CA's certificate as PEM."""
        path.write_bytes(pem(self.certificate))
        return str(path)

    def _above(self) -> tuple[x509.Certificate, ...]:
        is_root = self.certificate.issuer == self.certificate.subject
        return () if is_root else self.issued.chain

    def issue(
        self,
        subject: str | x509.Name = "broker",
        *,
        names: Sequence[str] = ("localhost", "127.0.0.1"),
        key: Callable[[], Key] | Key = ec_key,
        starts_days: float = -1,
        days: float = 30,
        usage: Sequence[x509.ObjectIdentifier] = (SERVER, CLIENT),
    ) -> Issued:
        """A certificate of somebody, valid from `starts_days` from now until `days` from now."""
        own = key() if callable(key) else key
        made = _certificate(
            common_name(subject) if isinstance(subject, str) else subject,
            own,
            self.certificate.subject,
            self.issued.key,
            names=names,
            starts_days=starts_days,
            days=days,
            usage=usage,
        )
        return Issued(own, made, self._above())

    def revoke(self, *those: Issued) -> bytes:
        """A revocation list with them, and all before, as PEM."""
        now = datetime.now(UTC)
        for each in those:
            one = x509.RevokedCertificateBuilder().serial_number(each.certificate.serial_number).revocation_date(now)
            self.revoked.append(one.build())
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(now - timedelta(days=1)).next_update(now + timedelta(days=30))
        for revoked in self.revoked:
            builder = builder.add_revoked_certificate(revoked)
        made = builder.sign(self.issued.key, _digest(self.issued.key))
        return made.public_bytes(serialization.Encoding.PEM)


def _certificate(
    subject: x509.Name,
    key: Key,
    issuer: x509.Name,
    issuer_key: Key,
    *,
    names: Sequence[str] = (),
    starts_days: float = -1,
    days: float = 30,
    usage: Sequence[x509.ObjectIdentifier] = (),
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=starts_days))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(each) for each in names]), critical=False)
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    return builder.sign(issuer_key, _digest(issuer_key))


def _digest(key: Key) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
