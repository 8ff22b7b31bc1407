"""The coordinator of a model: a group, its records written and kept, its timers as a set."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final, Generic, Self, TypeVar

from eosin.coordinator.groups.consumer.rules.events import (
    CancelMemberTimer,
    ConsumerTimer,
    ConsumerTimerKind,
    StartMemberTimer,
)
from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.scan import KeyValue

NOW_MS: Final = 1000

G = TypeVar("G")
P = TypeVar("P")


class Coordinator(ABC, Generic[G, P]):
    """The group, its log, its timers and the rest of a target. Two are equal if nothing tells them apart."""

    __slots__ = ("_hash", "_key", "group", "has_looked", "log", "parts", "timers")

    def __init__(
        self,
        group: G,
        log: Mapping[bytes, KeyValue],
        timers: Mapping[ConsumerTimer, int],
        parts: tuple[P, ...],
        *,
        has_looked: bool,
    ) -> None:
        self.group = group
        self.log = log
        """The last record of each key. It is what the group says (`rules.check`), so it is no part of the key."""
        self.timers = timers
        """The epoch with which each was started, where that decides what its end means."""
        self.parts = parts
        """Parts of a target that was computed beside the decisions."""
        self.has_looked = has_looked
        """True if the group has seen the topics as they are."""
        running = sorted((kind.value, name, epoch) for (kind, name), epoch in timers.items())
        self._key = (self._key_of(group), tuple(running), tuple(map(_key_of_part, parts)), has_looked)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Coordinator) and self._key == other._key

    @staticmethod
    @abstractmethod
    def _key_of(group: G) -> object:
        """All that tells a group from others."""

    def after(self, decided: Any, records: Iterable[NewRecord], parts: tuple[P, ...], *, looks: bool) -> Self:
        """The same after a decision, whose records are written."""
        has_looked = self.has_looked or looks
        timers = _timers(self.timers, decided.timers)
        return type(self)(decided.group, _log(self.log, records), timers, parts, has_looked=has_looked)

    def without_part(self) -> tuple[Self, P]:
        """The same, the next part of a target taken out, and that."""
        part, *rest = self.parts
        return type(self)(self.group, self.log, self.timers, tuple(rest), has_looked=self.has_looked), part

    def without_timer(self, timer: ConsumerTimer) -> Self:
        """The same, a timer of which has run out."""
        timers = {each: epoch for each, epoch in self.timers.items() if each != timer}
        return type(self)(self.group, self.log, timers, self.parts, has_looked=self.has_looked)

    def with_other_topics(self) -> Self:
        """The same, where topics have changed."""
        return type(self)(self.group, self.log, self.timers, self.parts, has_looked=False)

    def loaded(self, group: G, epochs: Mapping[str, int | None]) -> Self:
        """Another one, which begins with the log, out of which comes the group. Each member has a whole session, and
        those that have to give up something their time for it: the values of `epochs`, by member."""
        timers: dict[ConsumerTimer, int] = {}
        for name, epoch in epochs.items():
            timers[ConsumerTimer(ConsumerTimerKind.SESSION, name)] = 0
            if epoch is not None:
                timers[ConsumerTimer(ConsumerTimerKind.REBALANCE, name)] = epoch
        return type(self)(group, self.log, timers, (), has_looked=False)


def _key_of_part(part: Any) -> object:
    return part.epoch, tuple(part.targets.items()), tuple(part.members)


def _log(before: Mapping[bytes, KeyValue], records: Iterable[NewRecord]) -> dict[bytes, KeyValue]:
    log = dict(before)
    for record in records:
        assert record.key is not None
        log[record.key] = KeyValue(len(log), record.key, record.value)
    return log


def _timers(before: Mapping[ConsumerTimer, int], effects: Iterable[object]) -> dict[ConsumerTimer, int]:
    timers = dict(before)
    for effect in effects:
        match effect:
            case StartMemberTimer(timer, _, epoch, unless_runs):
                if not (unless_runs and timer in timers):
                    timers[timer] = epoch if timer.kind is ConsumerTimerKind.REBALANCE else 0
            case CancelMemberTimer(timer):
                timers.pop(timer, None)
    return timers
