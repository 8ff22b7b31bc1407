"""Closes the sessions of users who are gone (security.md 3.3.6): Kafka leaves them alive."""

import logging
from typing import TYPE_CHECKING, Final

from eosin.runtime.logging_format import fields, shown

if TYPE_CHECKING:
    from eosin.network.host import ConnectionHost

log = logging.getLogger(__name__)

WITHIN_MS: Final = 1000
"""How long what is in flight may take to be answered."""
BY_PASSWORD: Final = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"})
"""The mechanisms that prove a user of the store."""


def close_sessions(host: "ConnectionHost", user: str) -> None:
    """End every connection of a user whose last credential was deleted, once what is in flight is answered, or soon."""
    theirs = [
        connection
        for connection in host.connections
        if connection.session.principal.name == user and connection.session.mechanism in BY_PASSWORD
    ]
    for connection in theirs:
        connection.end_after_answers()
        host.clock.call_later(WITHIN_MS, connection.close)
    if theirs:
        log.info("closing the connections of a deleted user", extra=fields(user=shown(user), connections=len(theirs)))
