"""The needs of streams groups besides those of consumer groups, declared by them."""

from typing import Protocol

from eosin.coordinator.groups.streams.rules.events import StreamsEvent
from eosin.coordinator.groups.streams.rules.group import StreamsGroup


class StreamsGroupObserver(Protocol):
    """Hears what was decided about streams groups (console.md 2.1). It decides nothing, and must not raise."""

    def streams_decided(
        self, before: StreamsGroup, after: StreamsGroup, event: StreamsEvent | None, now_ms: int
    ) -> None:
        """`event` has turned `before` into `after`; None: the group was read from its log."""
