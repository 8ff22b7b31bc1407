"""The common part of the TLS contexts of listeners, links and clients: versions, trust and keys.

Always true: keys go from memory to OpenSSL, never through a file of ours; Java's PKIX takes any certificate of a trust
store as an anchor, not only roots, and so do these contexts. What a store must be to be used, and what is said of one
that cannot be, is for those who make a context.
"""

import ssl
from collections.abc import Iterable
from typing import Final

from eosin.runtime.key_files import as_file

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def limit_versions(context: ssl.SSLContext, names: Iterable[str]) -> None:
    """Give a context the versions of TLS between the lowest and the highest that are named."""
    versions = [_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def trust(context: ssl.SSLContext, pem: bytes) -> None:
    """Let a context take certificates that lead to one of these. Raises SSLError, UnicodeDecodeError."""
    context.load_verify_locations(cadata=pem.decode("ascii"))
    accept_any_anchor(context)


def accept_any_anchor(context: ssl.SSLContext) -> None:
    """Let a chain end at any certificate that is trusted."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def trust_system(context: ssl.SSLContext) -> None:
    """Let a context of a client take certificates that lead to an authority of the system."""
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)


def identify(context: ssl.SSLContext, pem: bytes, password: str | None = None) -> None:
    """Give a context its key and certificates. Raises SSLError."""
    with as_file(pem) as path:
        context.load_cert_chain(path, password=password)
