"""`NetworkOperations`: what tests do to the network of a broker, and its face (`broker.network`)."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from eosin.lab.common.errors import NotToldError
from eosin.lab.network.lab_network import LabNetwork, link_match

Nothing = TypeVar("Nothing")
"""None, or what is to be awaited for it."""
Number = TypeVar("Number")


class NetworkOperations:
    """The part of `Operations` that is about the network."""

    network: LabNetwork | None = None
    """None for a broker that is not of the lab."""

    @property
    def _network(self) -> LabNetwork:
        if self.network is None:
            raise NotToldError("only a broker of the lab has a network that fails on demand")
        return self.network

    async def network_partition(self, match: dict[str, Any], refuse: bool) -> int:
        """Cut clients off; the number of their connections now."""
        return self._network.partition(link_match(match), refuse=refuse)

    async def network_heal(self) -> None:
        """End all cuts."""
        self._network.heal()

    async def network_latency(self, ms: float, jitter: float) -> None:
        """Have requests arrive late."""
        self._network.slow(ms, jitter)

    async def network_bandwidth(self, bytes_per_s: float | None) -> None:
        """Let so many bytes pass in a second."""
        self._network.narrow(bytes_per_s)

    async def network_reset_all(self) -> int:
        """Reset all connections; their number."""
        return self._network.reset_all()


class LabNetworkFace(Generic[Nothing, Number]):
    """The network between clients and the broker. All of it is in real time."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call: Final = call

    def partition(self, *, refuse: bool = False, **match: str) -> Number:
        """Cut clients off, by patterns (`client_id="inv-*"`, `software="librdkafka"`, `peer=`, `listener=`), or all:
        their connections stall in both directions, new ones are accepted and never answered, or with `refuse` reset.
        Returns the number of their connections now. Raises LabError."""
        number: Number = self._call(NetworkOperations.network_partition, match, refuse)
        return number

    def heal(self) -> Nothing:
        """End all cuts: what was under way arrives."""
        nothing: Nothing = self._call(NetworkOperations.network_heal)
        return nothing

    def latency(self, ms: float, jitter: float = 0) -> Nothing:
        """Have each request arrive so much later, and up to `jitter` ms more; 0 for no delay."""
        nothing: Nothing = self._call(NetworkOperations.network_latency, ms, jitter)
        return nothing

    def bandwidth(self, bytes_per_s: float | None) -> Nothing:
        """Let so many bytes pass in each direction of each connection; None for any number."""
        nothing: Nothing = self._call(NetworkOperations.network_bandwidth, bytes_per_s)
        return nothing

    def reset_all(self) -> Number:
        """Reset all connections, and return their number."""
        number: Number = self._call(NetworkOperations.network_reset_all)
        return number
