"""Key stores and trust stores: PEM and PKCS12 content, read and checked (security.md 2.2).

A `StoreError` is one sentence with the store's name and never its content. Nothing here keeps a password.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from eosin.client.security.stores import UNREADABLE, OpenedStore, open_pkcs12, pem_of, serial_numbers_of_any_sign
from eosin.runtime.key_files import JKS, StoreError, read_store
from eosin.security.tls.settings import PEM, PKCS12, KeyStoreSettings, TrustStoreSettings, convert_jks
from eosin.settings.settings import Secret

LEAST_RSA_BITS: Final = 2048

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_KEYS: Final = frozenset({b"PRIVATE KEY", b"ENCRYPTED PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY"})

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key and the certificates that go with it, the broker's own first."""

    name: str
    """The operator's name for it: a path, or the setting's name."""
    key: PrivateKey
    chain: tuple[x509.Certificate, ...]

    @property
    def leaf(self) -> x509.Certificate:
        """The broker's own certificate."""
        return self.chain[0]

    def pem(self) -> bytes:
        """All of it, unencrypted: for memory only."""
        return pem_of(self.chain, key=self.key)


def load_key_store(settings: KeyStoreSettings) -> KeyStore:
    """The key store, read and put together; its dates are not looked at. Raises StoreError."""
    if settings.key is not None and settings.certificate_chain is not None:
        key_text, chain_text = settings.key.reveal().encode(), settings.certificate_chain.reveal().encode()
        key = _pem_key(key_text, settings.key_password, "ssl.keystore.key")
        chain = _pem_certificates(chain_text, "ssl.keystore.certificate.chain")
        return _checked(KeyStore("ssl.keystore.certificate.chain", key, chain))
    path = settings.location
    assert path is not None
    content = read_store(path)
    if _kind(content, settings.type, path) == PEM:
        if settings.password is not None:
            raise StoreError(f"{path} is PEM, whose key has ssl.key.password; leave ssl.keystore.password out")
        return _checked(
            KeyStore(path, _pem_key(content, settings.key_password, path), _pem_certificates(content, path))
        )
    if settings.password is None:
        raise StoreError(f"{path} is PKCS12, so it needs ssl.keystore.password")
    loaded = _pkcs12(content, settings.password, path)
    if loaded.key is None or loaded.own is None:
        raise StoreError(f"{path} has no private key with a certificate")
    return _checked(KeyStore(path, _supported(loaded.key, path), _in_order(loaded.own, loaded.others)))


def load_trust_store(settings: TrustStoreSettings) -> tuple[x509.Certificate, ...]:
    """The certificates that are trusted. Raises StoreError."""
    if settings.certificates is not None:
        return _pem_certificates(settings.certificates.reveal().encode(), "ssl.truststore.certificates")
    path = settings.location
    assert path is not None
    content = read_store(path)
    if _kind(content, settings.type, path) == PEM:
        if settings.password is not None:
            raise StoreError(f"{path} is PEM, which has no password; leave ssl.truststore.password out")
        return _pem_certificates(content, path)
    loaded = _pkcs12(content, settings.password, path)
    if not loaded.certificates:
        raise StoreError(f"{path} has no certificates")
    return loaded.certificates


def load_revocations(path: str) -> bytes:
    """The revocation lists of a PEM file, as PEM. Raises StoreError."""
    blocks = [found[0] for found in _BLOCK.finditer(read_store(path)) if found[1] == b"X509 CRL"]
    if not blocks:
        raise StoreError(f"{path} has no revocation list (-----BEGIN X509 CRL-----)")
    for block in blocks:
        try:
            x509.load_pem_x509_crl(block)
        except UNREADABLE:
            raise StoreError(f"{path} has a revocation list that cannot be read") from None
    return b"\n".join(blocks) + b"\n"


def check_dates(store: KeyStore, now: datetime) -> None:
    """Refuse a certificate that is not valid now. Raises StoreError."""
    for at, each in enumerate(store.chain):
        which = f"{store.name}: the certificate" if at == 0 else f"{store.name}: certificate {at + 1} of the chain"
        if now < each.not_valid_before_utc:
            raise StoreError(f"{which} is valid from {each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC only")
        if now >= each.not_valid_after_utc:
            raise StoreError(f"{which} has expired on {each.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")


def days_left(store: KeyStore, now: datetime) -> float:
    """Until the first certificate of the chain expires."""
    return min((each.not_valid_after_utc - now).total_seconds() for each in store.chain) / 86_400


def utc(ms: int) -> datetime:
    """Milliseconds since 1970 as a date."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def _kind(content: bytes, given: str | None, name: str) -> str:
    if content.startswith(JKS):
        raise StoreError(f"{name} is a JKS store; convert it: {convert_jks(name)}")
    if _BLOCK.search(content):
        found = PEM
    elif content.startswith(b"\x30"):
        found = PKCS12
    else:
        raise StoreError(f"{name} is neither PEM nor PKCS12")
    if given is not None and given != found:
        raise StoreError(f"{name} is {found}, not {given}")
    return found


def _pem_key(text: bytes, password: Secret | None, name: str) -> PrivateKey:
    blocks = [(found[1], found[2]) for found in _BLOCK.finditer(text) if found[1].endswith(b"PRIVATE KEY")]
    if len(blocks) != 1:
        raise StoreError(f"{name} must have one private key, not {len(blocks) or 'none'}")
    label, body = blocks[0]
    if label not in _KEYS:
        raise StoreError(f"{name} has a {label.decode().title()}, which is none of RSA, ECDSA and Ed25519")
    secret = None if password is None else password.reveal().encode()
    is_encrypted = label.startswith(b"ENCRYPTED") or b"ENCRYPTED" in body
    if is_encrypted and secret is None:
        raise StoreError(f"{name} has an encrypted private key, so it needs ssl.key.password")
    try:
        key = serialization.load_pem_private_key(_block(label, body), secret if is_encrypted else None)
    except UNREADABLE:
        why = "ssl.key.password does not open it" if is_encrypted else "it is damaged"
        raise StoreError(f"{name} has a private key that cannot be read: {why}") from None
    return _supported(key, name)


def _pem_certificates(text: bytes, name: str) -> tuple[x509.Certificate, ...]:
    found = []
    for label, body in _BLOCK.findall(text):
        if label not in (b"CERTIFICATE", b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE"):
            continue
        try:
            with serial_numbers_of_any_sign():
                found.append(x509.load_pem_x509_certificate(_block(b"CERTIFICATE", body)))
        except UNREADABLE:
            raise StoreError(f"{name} has a certificate that cannot be read, the {len(found) + 1}. of it") from None
    if not found:
        raise StoreError(f"{name} has no certificate")
    return tuple(found)


def _block(label: bytes, body: bytes) -> bytes:
    """A block as readers want it, also where somebody has written its lines one behind the other."""
    if b":" not in body:
        packed = b"".join(body.split())
        body = b"\n" + b"".join(packed[at : at + 64] + b"\n" for at in range(0, len(packed), 64))
    return b"-----BEGIN " + label + b"-----" + body + b"-----END " + label + b"-----\n"


def _pkcs12(content: bytes, password: Secret | None, name: str) -> OpenedStore:
    try:
        return open_pkcs12(content, None if password is None else password.reveal())
    except ValueError:
        raise StoreError(f"{name} is no PKCS12 store that this password opens") from None


def _supported(key: object, name: str) -> PrivateKey:
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise StoreError(f"{name} has a private key that is none of RSA, ECDSA and Ed25519")
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < LEAST_RSA_BITS:
        raise StoreError(f"{name} has an RSA key of {key.key_size} bits; at least {LEAST_RSA_BITS} are needed")
    return key


def _checked(store: KeyStore) -> KeyStore:
    """The store, if its key is that of the first certificate and each certificate was issued by the next."""
    if _public(store.key.public_key()) != _public(store.leaf.public_key()):
        others = (_public(each.public_key()) for each in store.chain[1:])
        if _public(store.key.public_key()) in others:
            raise StoreError(f"{store.name}: the broker's own certificate must be the first one of the chain")
        raise StoreError(f"{store.name}: the private key does not belong to the certificate")
    for at, (each, issuer) in enumerate(zip(store.chain, store.chain[1:], strict=False), 1):
        try:
            each.verify_directly_issued_by(issuer)
        except (*UNREADABLE, InvalidSignature):
            raise StoreError(
                f"{store.name}: certificate {at + 1} of the chain has not issued certificate {at}"
            ) from None
    return store


def _public(key: object) -> bytes:
    encoded: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded


def _in_order(leaf: x509.Certificate, others: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """The chain from the leaf on: a PKCS12 store keeps no order."""
    chain, left = [leaf], list(others)
    while left and chain[-1].issuer != chain[-1].subject:
        issuer = next((each for each in left if each.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        left.remove(issuer)
        chain.append(issuer)
    return tuple(chain)
