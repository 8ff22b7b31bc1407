"""Lines that those who start containers of Kafka wait for, and the listeners that a health check may ask.

Always true: each line stands once on standard output, whatever the level and the form of the log, and those of a
broker that is ready only when it answers.
"""

from collections.abc import Sequence
from typing import Final

from eosin.cli.image.state import CERTIFIED, OpenListener
from eosin.settings.broker import BrokerConfig
from eosin.settings.listeners import Listener, parse_listener

BEGINNING: Final = "Creating new log file"
"""Before the start."""


def ready_lines(node_id: int) -> Sequence[str]:
    """Kafka's own lines, when it serves as a broker with ZooKeeper and as one with KRaft."""
    return (
        f"[KafkaServer id={node_id}] started",
        "Transitioning from RECOVERY to RUNNING",
        "Kafka Server started",
        "Checking need to trigger auto leader balancing",
    )


def open_listeners(config: BrokerConfig, addresses: Sequence[str]) -> Sequence[OpenListener]:
    """The listeners in the order of the settings, by the addresses that were bound."""
    found = []
    for listener, address in zip(config.bound_listeners, addresses, strict=True):
        bound = parse_listener(address, key="listeners")
        near = Listener(bound.name, "127.0.0.1", bound.port) if bound.is_wildcard else bound
        protocol = config.protocols[listener.name]
        if protocol == "SSL" and config.for_listener("ssl.client.auth", listener.name) == "required":
            protocol = CERTIFIED
        found.append(OpenListener(protocol, near.address))
    return found
