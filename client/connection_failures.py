"""Says why a connection could not be made or was lost, in one sentence with a hint at the setting that may be wrong.

Always true: certificates and logins that one side refuses are `AuthenticationFailed`, which nobody tries again; what
may pass by itself is `ConnectionFailed`.
"""

import os
import ssl
from enum import Enum, auto
from typing import Final

from eosin.client.addresses import Address
from eosin.client.errors import AuthenticationFailed, ClientError, ConnectionFailed, ProtocolViolation

_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"})
"""OpenSSL's names for bytes that are no TLS."""
_NO_COMMON_VERSION: Final = frozenset(
    {"UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "NO_PROTOCOLS_AVAILABLE", "NO_SHARED_CIPHER"}
)


def failed_to_connect(address: Address, error: BaseException, *, has_tls: bool) -> ClientError:
    """Translates an exception of opening a connection."""
    if isinstance(error, ssl.SSLError):
        return _failed_handshake(address, error)
    if has_tls and isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError | EOFError):
        return ConnectionFailed(
            f"cannot connect to {address}: it hung up during the TLS handshake; perhaps its listener is without TLS"
            " (security.protocol)"
        )
    if isinstance(error, ConnectionRefusedError):
        return ConnectionFailed(f"cannot connect to {address}: {reason(error)} (nothing listens there)")
    return ConnectionFailed(f"cannot connect to {address}: {reason(error)}")


class Stage(Enum):
    """The stage of a connection when it was lost."""

    TLS_UNANSWERED = auto()
    """Encrypted, with a request on its way and no answer yet: where a broker hangs up for want of a certificate."""
    TLS_UNPROVED = auto()
    """Encrypted, and nothing but ApiVersions was answered, which brokers do before a login as well."""
    PLAIN_UNPROVED = auto()
    """The same in plain bytes."""
    IN_USE = auto()


_HINTS: Final = {
    Stage.TLS_UNANSWERED: "; perhaps it wants a certificate of this client (ssl.keystore.*)",
    Stage.TLS_UNPROVED: "; perhaps its listener asks for a login (security.protocol)",
    Stage.PLAIN_UNPROVED: "; perhaps its listener asks for TLS or a login (security.protocol)",
    Stage.IN_USE: "",
}


def lost(address: Address, error: Exception | None, stage: Stage) -> ClientError:
    """Translates the end of an open connection."""
    if isinstance(error, ssl.SSLError):
        refused = _refused_certificate(address, error)
        if refused is not None:
            return refused
    because = f": {reason(error)}" if error is not None else ""
    return ConnectionFailed(f"{address} closed the connection{because}{_HINTS[stage]}")


def speaks_tls(address: Address) -> ClientError:
    """The peer answered to plain bytes with a TLS alert."""
    return ProtocolViolation(f"{address} speaks TLS: security.protocol is SSL or SASL_SSL there")


def speaks_http(address: Address) -> ClientError:
    """The peer answered in HTTP."""
    return ProtocolViolation(f"{address} speaks HTTP, not Kafka's protocol: a broker's own listener is another port")


def reason(error: BaseException) -> str:
    """An error of the operating system in its own words, without its number."""
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    text = getattr(error, "strerror", None) or str(error)
    if text.startswith("Multiple exceptions:"):  # asyncio's, when a name has several addresses
        return "refused at each of its addresses"
    return text or type(error).__name__


def _failed_handshake(address: Address, error: ssl.SSLError) -> ClientError:
    if isinstance(error, ssl.SSLCertVerificationError):
        # Hostname mismatch, certificate is not valid for 'x'. / self-signed certificate / certificate has expired
        why = error.verify_message.rstrip(".")
        return AuthenticationFailed(f"{address} shows a certificate that is not trusted: {why} (ssl.truststore.*)")
    refused = _refused_certificate(address, error)
    if refused is not None:
        return refused
    if error.reason in _NOT_TLS:
        return ProtocolViolation(
            f"{address} does not speak TLS: security.protocol is PLAINTEXT or SASL_PLAINTEXT there"
        )
    if error.reason in _NO_COMMON_VERSION:
        return AuthenticationFailed(f"{address} and this client have no version or cipher of TLS in common")
    said = (error.reason or "").replace("_", " ").lower() or "unknown reason"
    return ConnectionFailed(f"cannot connect to {address}: the TLS handshake failed: {said}")


def _refused_certificate(address: Address, error: ssl.SSLError) -> ClientError | None:
    """The alert of a broker that wants another certificate of ours, or one at all."""
    said = error.reason or ""
    if "ALERT" not in said or not ("CERTIFICATE" in said or "UNKNOWN_CA" in said or "HANDSHAKE_FAILURE" in said):
        return None
    why = said.partition("ALERT_")[2].replace("_", " ").lower()
    return AuthenticationFailed(f"{address} refuses this client's certificate, or misses it: {why} (ssl.keystore.*)")
