"""`GroupRecorder`: remembers what has happened to consumer groups, and why (console.md 2.1).

It is the group coordinator's observer. Always true: `RING` events of a group at most, besides the last transaction of
each of `PRODUCERS` producers with offsets of it and `REPEATING` refusals that are counted; all groups together keep at
most the events that the limit has room for, and those of groups to which nothing has happened for longest go first.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from eosin.coordinator.groups.consumer.rules.events import ConsumerEvent
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.rules.events import Event
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.share.rules.events import ShareEvent
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.streams.rules.events import StreamsEvent
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.coordinator.ports import Requester
from eosin.observe.recorder.consumer_group_events import consumer_happened
from eosin.observe.recorder.events import HistoryEvent
from eosin.observe.recorder.group_events import (
    MOVED,
    GroupHistory,
    happened,
    offsets_event,
    refused_event,
    unstable_event,
)
from eosin.observe.recorder.share_group_events import share_happened
from eosin.observe.recorder.streams_group_events import streams_happened
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock
from eosin.storage.results.log_results import Marker

RING: Final = 64
PRODUCERS: Final = 8
REPEATING: Final = 8
"""Of a group: different refusals of commits, and waits for stable offsets."""
ONLOOKERS: Final = ("eosin-cli", "eosin-console")
"""The client ids of Eosin's own commands and of its console."""
EVENT_BYTES: Final = 512
"""About what an event takes, with its texts and who it is about."""
FEWEST_EVENTS: Final = 256
DEFAULT_BYTES: Final = 2 * 1024 * 1024


OnGroupEvent = Callable[[str, HistoryEvent], None]
"""Called with the group and each event that a decision is."""


class _Track:
    """One group."""

    __slots__ = ("events", "left_out", "offsets", "repeating")

    def __init__(self) -> None:
        self.events: deque[HistoryEvent] = deque()
        self.left_out = 0
        self.offsets: dict[int, HistoryEvent] = {}
        """The last transaction with offsets of the group, by producer id; least recent first."""
        self.repeating: dict[tuple[str, str, int, int], HistoryEvent] = {}
        """Events that may repeat for a client, counted; least recent first."""

    def __len__(self) -> int:
        return len(self.events) + len(self.offsets) + len(self.repeating)


class GroupRecorder:
    """The tracks of this broker's groups (`GroupObserver`)."""

    def __init__(self, clock: Clock, *, max_bytes: int = DEFAULT_BYTES) -> None:
        self._most_events = max(FEWEST_EVENTS, max_bytes // EVENT_BYTES)
        self._tracks: dict[str, _Track] = {}
        """Least recently changed first."""
        self._events = 0
        self.since_ms = clock.now_ms()
        self.dropped_groups = 0
        self.on_event: OnGroupEvent | None = None

    @property
    def events(self) -> int:
        """The number of events that are kept."""
        return self._events

    def history(self, group_id: str) -> GroupHistory | None:
        """All that is kept of one group; None when nothing is."""
        track = self._tracks.get(group_id)
        if track is None:
            return None
        events = sorted(
            [*track.events, *track.offsets.values(), *track.repeating.values()], key=lambda each: each.at_ms
        )
        return GroupHistory(self.since_ms, tuple(events), track.left_out, self.dropped_groups)

    def decided(self, before: Group, after: Group, event: Event, now_ms: int) -> None:
        """Remember what `event` has made of a group."""
        self._remember(after.group_id, happened(before, after, event, now_ms))

    def consumer_decided(
        self, before: ConsumerGroup, after: ConsumerGroup, event: ConsumerEvent | None, now_ms: int
    ) -> None:
        """The same of a group of KIP-848."""
        self._remember(after.group_id, consumer_happened(before, after, event, now_ms))

    def share_decided(self, before: ShareGroup, after: ShareGroup, event: ShareEvent | None, now_ms: int) -> None:
        """The same of a share group."""
        self._remember(after.group_id, share_happened(before, after, event, now_ms))

    def streams_decided(
        self, before: StreamsGroup, after: StreamsGroup, event: StreamsEvent | None, now_ms: int
    ) -> None:
        """The same of a streams group."""
        self._remember(after.group_id, streams_happened(before, after, event, now_ms))

    def _remember(self, group_id: str, events: Iterable[HistoryEvent]) -> None:
        for each in events:
            track = self._track(group_id)
            if each.kind == MOVED and not track.events:
                continue
            track.events.append(each)
            self._events += 1
            if self.on_event is not None:
                self.on_event(group_id, each)
            if len(track.events) > RING:
                track.events.popleft()
                track.left_out += 1
                self._events -= 1
        self._keep_to_the_limit()

    def offsets_completed(self, held: Mapping[str, int], marker: Marker, now_ms: int) -> None:
        """A transaction is over that held offsets of groups, for so many partitions of each."""
        for group_id, partitions in held.items():
            offsets = self._track(group_id).offsets
            if offsets.pop(marker.producer_id, None) is None:
                self._events += 1
            offsets[marker.producer_id] = offsets_event(
                now_ms, marker.producer_id, marker.producer_epoch, commit=marker.commit, partitions=partitions
            )
            if len(offsets) > PRODUCERS:
                del offsets[next(iter(offsets))]
                self._events -= 1
        self._keep_to_the_limit()

    def offsets_unstable(
        self, group_id: str, partitions: Sequence[TopicPartition], *, who: Requester | None, now_ms: int
    ) -> None:
        """A reader is told UNSTABLE_OFFSET_COMMIT; whoever only looks, as `eosin explain` does, is none."""
        if who is not None and (who.client_id or "").startswith(ONLOOKERS):
            return
        self._repeat(group_id, unstable_event(partitions, who, now_ms))

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
        """Offsets were refused."""
        self._repeat(
            group_id,
            refused_event(error, member_id=member_id, generation_id=generation_id, pair=pair, who=who, now_ms=now_ms),
        )

    def _repeat(self, group_id: str, event: HistoryEvent) -> None:
        """Keep an event, or count it with those that were the same."""
        repeating = self._track(group_id).repeating
        key = (event.kind, event.what, event.producer_id, event.producer_epoch)
        before = repeating.pop(key, None)
        if before is None:
            self._events += 1
        else:
            event = msgspec.structs.replace(event, count=before.count + 1, since_ms=before.since_ms)
        repeating[key] = event
        if len(repeating) > REPEATING:
            del repeating[next(iter(repeating))]
            self._events -= 1
        self._keep_to_the_limit()

    def _track(self, group_id: str) -> _Track:
        """The track of a group, which becomes the most recently changed one."""
        track = self._tracks.pop(group_id, None)
        if track is None:
            track = _Track()
        self._tracks[group_id] = track
        return track

    def _keep_to_the_limit(self) -> None:
        while self._events > self._most_events and len(self._tracks) > 1:
            self._events -= len(self._tracks.pop(next(iter(self._tracks))))
            self.dropped_groups += 1
