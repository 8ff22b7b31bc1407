"""PKCS12 stores, opened, and keys and certificates as PEM: for brokers and clients alike.

Imported by a program that has such a store, or a broker with TLS, and by no other: `cryptography` comes with it.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from cryptography import utils, x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""Raised by `cryptography` for keys and certificates that are damaged or of a kind that it does not know: some when
they are loaded, some when a part is first looked at."""


class OpenedStore(NamedTuple):
    """The content of a PKCS12 store."""

    key: PrivateKeyTypes | None
    own: x509.Certificate | None
    """The certificate of the key."""
    others: tuple[x509.Certificate, ...]

    @property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        """All of them, the key's own first."""
        return self.others if self.own is None else (self.own, *self.others)


def open_pkcs12(content: bytes, password: str | None) -> OpenedStore:
    """Open a store. Raises ValueError when it is none, or when the password does not open it."""
    try:
        with serial_numbers_of_any_sign():
            store = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except UNREADABLE as error:
        raise ValueError(str(error)) from None
    own = None if store.cert is None else store.cert.certificate
    return OpenedStore(store.key, own, tuple(each.certificate for each in store.additional_certs))


@contextmanager
def serial_numbers_of_any_sign() -> Iterator[None]:
    """Read certificates whose serial number is zero or negative without a warning: RFC 5280 forbids such numbers, but
    old authorities have them, and Java and OpenSSL take them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Parsed a serial number", utils.CryptographyDeprecationWarning)
        yield


def pem_of(certificates: Sequence[x509.Certificate], *, key: PrivateKeyTypes | None = None) -> bytes:
    """A key, unencrypted and for memory only, and certificates as PEM."""
    parts = [each.public_bytes(serialization.Encoding.PEM) for each in certificates]
    if key is not None:
        form = serialization.PrivateFormat.PKCS8
        parts.insert(0, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return b"".join(parts)
