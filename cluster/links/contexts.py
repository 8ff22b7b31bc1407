"""TLS contexts of links: what OpenSSL is told about connections to other nodes (cluster.md 7.2).

Built whole and never changed once connections use it, as those of listeners.
"""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from eosin.client.security.contexts import trust, trust_system
from eosin.client.security.stores import UNREADABLE, pem_of
from eosin.cluster.links.settings import LinkTls
from eosin.runtime.key_files import StoreError
from eosin.security.tls.contexts import WARN_DAYS, adopt_versions, identify_by, names_of
from eosin.security.tls.stores import (
    KeyStore,
    check_dates,
    days_left,
    load_key_store,
    load_trust_store,
)


@dataclass(frozen=True, slots=True)
class LinkContext:
    """A context for new connections, and what it was built from."""

    context: ssl.SSLContext
    key_store: KeyStore | None
    settings: LinkTls

    def warnings(self, now: datetime) -> Iterator[str]:
        """Warnings for the operator that no listener of this broker gives."""
        if self.key_store is not None and self.settings.is_to_controllers:
            left = days_left(self.key_store, now)
            if left < WARN_DAYS:
                yield f"{self.key_store.name}: the certificate expires in {left:.1f} days"


def build_link_context(settings: LinkTls, now: datetime) -> LinkContext:
    """Read the stores and check them. Raises StoreError."""
    try:
        return _built(settings, now)
    except (*UNREADABLE, ssl.SSLError):
        where = ", ".join(settings.files) or "ssl.keystore.certificate.chain or ssl.truststore.certificates"
        raise StoreError(f"{where}: there is a certificate that cannot be used") from None


def _built(settings: LinkTls, now: datetime) -> LinkContext:
    store = None if settings.key_store is None else load_key_store(settings.key_store)
    trusted: tuple[x509.Certificate, ...] = ()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.is_host_name_checked
    adopt_versions(context, settings.protocols, settings.cipher_suites)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if settings.trust_store is None:
        trust_system(context)
    else:
        trusted = load_trust_store(settings.trust_store)
        trust(context, pem_of(trusted))
    if store is not None:
        check_dates(store, now)
        names_of(store.leaf)
        identify_by(context, store)
    return LinkContext(context, store, settings)
