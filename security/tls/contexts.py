"""Contexts: what OpenSSL is told about one listener (security.md 2.2).

A context is built whole, proved by a handshake in memory, and never changed once connections use it: trust anchors
could be added to a live one, but not taken away.
"""

import contextlib
import os
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519

from eosin.client.security.contexts import identify, limit_versions, trust
from eosin.client.security.stores import UNREADABLE, pem_of
from eosin.runtime.key_files import StoreError, as_file
from eosin.security.tls.ciphers import chosen_ciphers
from eosin.security.tls.dev_certificates import is_dev
from eosin.security.tls.settings import ListenerTlsSettings, TrustStoreSettings
from eosin.security.tls.stores import (
    KeyStore,
    check_dates,
    days_left,
    load_key_store,
    load_revocations,
    load_trust_store,
)

ClientContext: TypeAlias = ssl.SSLContext
"""For those who only hand one on."""

WARN_DAYS: Final = 14
"""A certificate that expires within so many days is worth a warning."""

_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """A context for new connections, and what it was built from."""

    context: ssl.SSLContext
    key_store: KeyStore
    settings: ListenerTlsSettings

    def warnings(self, now: datetime) -> Iterator[str]:
        """Warnings for its operator."""
        return _warnings(self.settings, self.key_store, now)


def build_context(settings: ListenerTlsSettings, now: datetime) -> BuiltContext:
    """Read the stores, check and prove them. Raises StoreError."""
    try:
        built = _built(settings, now)
        list(built.warnings(now))  # which looks at what else there is in the certificate
        names_of(built.key_store.leaf)
    except (*UNREADABLE, ssl.SSLError):
        where = settings.key_store.location or "ssl.keystore.certificate.chain"
        raise StoreError(f"{where} or a store beside it has a certificate that cannot be used") from None
    return built


def client_context(settings: TrustStoreSettings) -> ClientContext:
    """Make a context that verifies servers by a trust store and by nothing else. Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    trust(context, pem_of(load_trust_store(settings)))
    return context


def names_of(certificate: x509.Certificate) -> set[str]:
    """The subject's alternative names."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in names}


def _built(settings: ListenerTlsSettings, now: datetime) -> BuiltContext:
    store = load_key_store(settings.key_store)
    check_dates(store, now)
    trusted = () if settings.trust_store is None else load_trust_store(settings.trust_store)
    revoked = None if settings.crl_location is None else load_revocations(settings.crl_location)
    context = _context(settings, store, trusted, revoked)
    _prove(context, store)
    context.verify_mode = _VERIFY[settings.client_auth]
    return BuiltContext(context, store, settings)


def _context(
    settings: ListenerTlsSettings, store: KeyStore, trusted: tuple[x509.Certificate, ...], revoked: bytes | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    adopt_versions(context, settings.protocols, settings.cipher_suites)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
    identify_by(context, store)
    if trusted:
        trust(context, pem_of(trusted))
    if revoked is not None:
        with as_file(revoked) as path:
            context.load_verify_locations(cafile=path)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def adopt_versions(context: ssl.SSLContext, protocols: Sequence[str], cipher_suites: Sequence[str]) -> None:
    """Give a context the versions of TLS and the suites that settings name."""
    ciphers = chosen_ciphers(cipher_suites, protocols)
    limit_versions(context, [name for name in protocols if ciphers is not None or name == "TLSv1.3"])
    if ciphers is not None:
        context.set_ciphers(ciphers)


def identify_by(context: ssl.SSLContext, store: KeyStore) -> None:
    """Give a context the key and the certificates of a store. Raises StoreError."""
    try:
        identify(context, store.pem())
    except ssl.SSLError as error:
        raise StoreError(f"{store.name}: OpenSSL refuses it ({error.reason or 'no reason given'})") from None


def _prove(context: ssl.SSLContext, store: KeyStore) -> None:
    """Let a client that trusts the chain shake hands with the context. Raises StoreError."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    trust(client, pem_of(store.chain))
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        context.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_side=False),
    ]
    try:
        for _ in range(8):
            for end in tuple(ends):
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                    ends.remove(end)
            if not ends:
                return
    except ssl.SSLCertVerificationError as error:
        raise StoreError(f"{store.name}: clients would refuse the certificate: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise StoreError(f"{store.name}: a handshake fails ({error.reason or 'no reason given'})") from None
    raise StoreError(f"{store.name}: a handshake does not come to an end")


def _warnings(settings: ListenerTlsSettings, store: KeyStore, now: datetime) -> Iterator[str]:
    left = days_left(store, now)
    if left < WARN_DAYS:
        yield f"{store.name}: the certificate expires in {left:.1f} days"
    if is_dev(store.leaf):
        yield f"{store.name} was made by eosin certs dev, for trying out on one machine"
    if isinstance(store.key, ed25519.Ed25519PrivateKey):
        yield f"{store.name} has an Ed25519 key, which Java clients before 15 cannot use"
    path = settings.key_store.location
    if path is not None and os.name == "posix":
        with contextlib.suppress(OSError):
            if Path(path).stat().st_mode & 0o077:
                yield f"{path} holds a private key, and others than its owner may read it: chmod 600 {path}"
