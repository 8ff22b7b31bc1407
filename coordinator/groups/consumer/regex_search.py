"""`RegexSearch`: finds the topics that match the regular expressions of consumer groups (consumer-groups.md 5).

Many patterns may meet many topics, so a search takes some turns of the event loop, on the names as they were when it
began. Always true: at most one search of a group runs.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from eosin.coordinator.groups.consumer.ports import ClusterTopics, MayDescribe
from eosin.coordinator.groups.consumer.rules.events import RegexesResolved
from eosin.coordinator.groups.consumer.rules.group import ResolvedRegex
from eosin.coordinator.replay import exhaust
from eosin.coordinator.steps import InSteps
from eosin.protocol.names import INTERNAL_TOPICS
from eosin.runtime.clock import Clock
from eosin.runtime.name_patterns import InvalidPattern, matcher
from eosin.runtime.turns import next_turn, outcome_in_turns

INTERNAL: tuple[str, ...] = ("__", "^__")
"""The beginnings of patterns that are meant for internal topics: `.*` is not."""

ASKED_AT_ONCE: Final = 50
"""Topics of which one step asks whether a client may know of them: some microseconds for each."""


def problem_of(pattern: str) -> str | None:
    """The fault of a regular expression; None if it has none."""
    try:
        matcher(pattern)
    except InvalidPattern as error:
        return f"SubscribedTopicRegex is invalid: {error}."
    return None


class RegexSearch:
    """The searches that run."""

    def __init__(
        self,
        *,
        topics: ClusterTopics,
        clock: Clock,
        prepared: Callable[[str, Mapping[str, ResolvedRegex]], InSteps[None]],
        found: Callable[[str, RegexesResolved], None],
    ) -> None:
        """`found` is told what a search of a group has found, once steps are taken that make this short."""
        self._topics = topics
        self._clock = clock
        self._prepared = prepared
        self._found = found
        self._running: dict[str, asyncio.Task[None]] = {}

    def runs(self, group_id: str) -> bool:
        """True while a search of the group runs."""
        return group_id in self._running

    def begin(self, group_id: str, patterns: Iterable[str], may_describe: MayDescribe) -> None:
        """Look for the topics of a group's patterns. Those that the client of the member that asks may not know of are
        left out, for the whole group."""
        search = self._search(group_id, tuple(patterns), may_describe)
        task = asyncio.get_running_loop().create_task(search)
        self._running[group_id] = task
        task.add_done_callback(lambda _: self._running.pop(group_id, None))

    def close(self) -> None:
        """End all searches: nothing is found any more."""
        for task in list(self._running.values()):
            task.cancel()

    async def _search(self, group_id: str, patterns: tuple[str, ...], may_describe: MayDescribe) -> None:
        await next_turn()  # a topic that comes has all groups look for theirs
        version, names = self._topics.metadata_version, tuple(self._topics.topics)
        matched: dict[str, set[str]] = {pattern: set() for pattern in patterns if problem_of(pattern) is None}
        await exhaust(_matching(names, matched))
        await exhaust(_hide_others(names, matched, may_describe))
        now_ms = self._clock.now_ms()
        resolved = {pattern: ResolvedRegex(frozenset(found), version, now_ms) for pattern, found in matched.items()}
        await outcome_in_turns(self._prepared(group_id, resolved), self._clock)
        self._running.pop(group_id, None)
        self._found(group_id, RegexesResolved(resolved, frozenset(patterns).difference(matched)))


def _matching(names: tuple[str, ...], matched: Mapping[str, set[str]]) -> Iterator[None]:
    for pattern, found in matched.items():
        matches = matcher(pattern)
        shows_internal = pattern.startswith(INTERNAL)
        for name in names:
            if (shows_internal or name not in INTERNAL_TOPICS) and matches(name):
                found.add(name)
            yield


def _hide_others(names: Sequence[str], matched: Mapping[str, set[str]], may_describe: MayDescribe) -> Iterator[None]:
    """Take those that the client may not know of away again."""
    for first in range(0, len(names), ASKED_AT_ONCE):
        some = [name for name in names[first : first + ASKED_AT_ONCE] if any(name in each for each in matched.values())]
        for name, may in zip(some, may_describe(some), strict=True):
            if not may:
                for each in matched.values():
                    each.discard(name)
            yield
