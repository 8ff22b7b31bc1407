"""Listeners on which anybody who reaches them may read and write, and the refusal of those that others reach
(security.md 6.1)."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from eosin.runtime.logging_format import fields
from eosin.settings.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from eosin.settings.start_error import StartError

if TYPE_CHECKING:
    from eosin.settings.broker import BrokerConfig

log = logging.getLogger(__name__)


def is_open(config: "BrokerConfig", listener: str) -> bool:
    """True if a peer of this listener may do something without a proof of who it is."""
    protocol = config.protocols[listener]
    if protocol in SASL_PROTOCOLS:
        return False
    if protocol in TLS_PROTOCOLS and config.for_listener("ssl.client.auth", listener) == "required":
        return False
    return (
        not config.authorizer_class_name
        or config.allow_everyone_if_no_acl_found
        or "User:ANONYMOUS" in config.super_principals
    )


def is_loopback(address: str) -> bool:
    """True if only this machine reaches the address, as the system tells it after the bind."""
    return address == "::1" or address.removeprefix("::ffff:").startswith("127.")


def check_open(config: "BrokerConfig", bound: Iterable[tuple[str, str]]) -> bool:
    """True if a listener is open to others than this machine, which is warned of. `bound` has names and addresses.
    Raises `StartError` if it was not asked for."""
    found = [(name, address) for name, address in bound if not is_loopback(address) and is_open(config, name)]
    for name, address in found:
        if not config.eosin_allow_open_listeners:
            raise StartError(
                f"listener {name} on {address} lets everyone read and write; secure it (docs/security.md), bind"
                " 127.0.0.1, or say --allow-open"
            )
        log.warning(
            "a listener lets everyone read and write, as --allow-open allows it",
            extra=fields(listener=name, address=address),
        )
    return bool(found)
