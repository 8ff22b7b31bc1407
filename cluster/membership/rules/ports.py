"""The states of a broker in its cluster, and what its membership needs of others."""

from enum import IntEnum


class BrokerState(IntEnum):
    """The state of a broker between start and stop, by Kafka's numbers (cluster.md 2.6)."""

    NOT_RUNNING = 0
    """Not registered yet."""
    STARTING = 1
    """Registered and fenced; the metadata are not there yet."""
    RECOVERY = 2
    """The metadata are there, and the logs are being matched with them."""
    RUNNING = 3
    """Unfenced at least once. A broker that is fenced later stays here, and its heartbeats unfence it."""
    PENDING_CONTROLLED_SHUTDOWN = 6
    """It has asked to stop, and serves on while leaderships move away."""
    SHUTTING_DOWN = 7
    """No heartbeats leave any more."""


class MembershipLost(Exception):
    """This broker cannot be, or stay, a member of its cluster: the text is one sentence."""
