"""Ends connections whose proof, the certificate that a client has shown, is worth nothing any more (security.md 2.5).

What is in flight gets its response. The client connects again and proves itself anew, or cannot.
"""

import hashlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eosin.runtime.key_files import StoreError, read_store
from eosin.runtime.logging_format import fields

if TYPE_CHECKING:
    from eosin.network.connection import ServerConnection
    from eosin.network.host import ConnectionHost

log = logging.getLogger(__name__)

WITHIN_MS: Final = 10_000
"""Time that requests in flight may take, and the client to read the responses."""


def digest_of(files: Sequence[str]) -> bytes:
    """A digest that differs as soon as the content of one of the files does."""
    digest = hashlib.sha256()
    for path in files:
        try:
            content = read_store(path)
        except StoreError:
            content = b""  # such stores are refused, and the look after next finds them again
        digest.update(hashlib.sha256(content).digest())
    return digest.digest()


def shown_here(host: "ConnectionHost", listener: str) -> "list[ServerConnection]":
    """The connections of a listener that are who their certificate says. With SASL a password or a token says it."""
    return [
        connection
        for connection in host.connections
        if (session := connection.session).listener == listener
        and session.mechanism is None
        and session.expires_at_ms is not None
    ]


def end(host: "ConnectionHost", connections: "Sequence[ServerConnection]", why: str) -> None:
    """End them once what is in flight is answered, or soon."""
    for connection in connections:
        if connection.waits_for_records:
            connection.close()
        else:
            connection.end_after_responses()
        host.clock.call_later(WITHIN_MS, connection.abort)
    if connections:
        log.info(
            "closing connections, whose clients have to prove again who they are: %s",
            why,
            extra=fields(connections=len(connections)),
        )
