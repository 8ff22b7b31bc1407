"""The membership of a broker as the rest of joined mode sees it: its state, and what it can be asked for."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Protocol

from eosin.protocol.names import Uuid


class BrokerState(IntEnum):
    """Where a broker stands between start and stop, by Kafka's numbers (cluster.md 2.6)."""

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


class MetadataProgress(Protocol):
    """What the membership asks the metadata follower."""

    @property
    def published_offset(self) -> int:
        """The last offset of the metadata log that was applied and published; -1 before the first publication."""


class MembershipPort(Protocol):
    """One broker's membership."""

    @property
    def broker_epoch(self) -> int:
        """The epoch that the last registration got; -1 before the first."""

    @property
    def state(self) -> BrokerState:
        """Where it stands."""

    async def start(self) -> None:
        """Register, and go on with heartbeats in the background. Returns when this broker is registered. Raises
        MembershipLost when it is refused for good, or not accepted in time."""

    async def caught_up(self) -> None:
        """Wait until the metadata are there up to the registration's own record: RECOVERY begins."""

    @property
    def is_fenced(self) -> bool:
        """Whether the controller gives this broker nothing to lead, as far as the last heartbeat knows."""

    def want_fence(self, want: bool) -> None:
        """Whether to be fenced. True until it is called with False: when logs, leaders and followers are set up."""

    async def unfenced(self) -> None:
        """Wait until the controller has unfenced this broker: RUNNING begins."""

    async def fenced(self) -> None:
        """Wait until a heartbeat has heard that this broker is fenced."""

    async def controlled_shutdown(self) -> None:
        """Ask to stop, and wait until leaderships have moved away or the limit is over; then no heartbeat leaves.
        Returns at once for a broker that is not running."""

    def report_failed_directories(self, directories: Iterable[Uuid]) -> None:
        """Tell the controller at once, and in every heartbeat from now on, that these directories have failed."""

    async def lost(self) -> str:
        """Wait for the end of the membership that nobody asked for; one sentence says why. The process has to stop
        accepting writes, and exit."""

    async def close(self) -> None:
        """Send nothing more."""
