"""`LoopStats`: how busy the event loop is, kept only where the HTTP listener is on (console.md 4.2)."""

from eosin.network.request_stats import Latencies


class LoopStats:
    """The load of the event loop, and the delays of its calls."""

    __slots__ = ("busy_ratio", "delays")

    def __init__(self) -> None:
        self.busy_ratio = 0.0
        """Of the time between the last two looks."""
        self.delays = Latencies()
