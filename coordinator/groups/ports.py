"""`GroupObserver`: the port through which the decisions of the group coordinator are heard."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from eosin.coordinator.groups.consumer.ports import ConsumerGroupObserver
from eosin.coordinator.groups.rules.events import Event
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.share.ports import ShareGroupObserver
from eosin.coordinator.groups.streams.ports import StreamsGroupObserver
from eosin.coordinator.ports import Requester
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.storage.results.log_results import Marker


class GroupObserver(ConsumerGroupObserver, ShareGroupObserver, StreamsGroupObserver, Protocol):
    """Hears what a group coordinator has decided (console.md 2.2). It decides nothing, and must not raise."""

    def decided(self, before: Group, after: Group, event: Event, now_ms: int) -> None:
        """`event` has turned `before` into `after`."""

    def offsets_completed(self, held: Mapping[str, int], marker: Marker, now_ms: int) -> None:
        """A transaction's marker is durable: its offsets are visible or forgotten. `held`: of how many partitions, by
        group."""

    def offsets_unstable(
        self, group_id: str, partitions: Sequence[TopicPartition], *, who: Requester | None, now_ms: int
    ) -> None:
        """A reader that wants stable offsets is told UNSTABLE_OFFSET_COMMIT for these partitions."""

    def commit_refused(
        self,
        group_id: str,
        error: ErrorCode,
        *,
        member_id: str,
        generation_id: int,
        pair: tuple[int, int] | None,
        who: Requester | None,
        now_ms: int,
    ) -> None:
        """Offsets of a group that is there were refused; `pair` is that of a transaction's producer."""
