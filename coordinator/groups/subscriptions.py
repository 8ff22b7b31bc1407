"""`Subscriptions`: reads the topics that members of classic groups are subscribed to, where they bring much metadata.

A MiB of it takes 50 ms to read, and a user may bring 256. So a thread reads what takes long, of one group at a time.
Always true: what is not known counts as subscribed to everything, so that no offset goes that somebody may want.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.rules.subscription import metadata_bytes, subscribed_among, subscribed_topics
from eosin.protocol.names import TopicPartition
from eosin.runtime.thread_rest import GivenUp, ThreadRest

READ_AT_ONCE_BYTES: Final = 65_536
"""Metadata of all members: up to so much takes 3 ms."""
MOST_BYTES: Final = 16_777_216
"""Of more nothing is read, and all topics count as subscribed to."""


class KnownSubscription:
    """The subscription of one group, as far as it is known to who deletes some offsets, of the topics of these."""

    __slots__ = ("_group", "_topics")

    def __init__(self) -> None:
        self._group: Group | None = None
        self._topics: frozenset[str] | None = None

    def lacks(self, group: Group) -> bool:
        """True if a thread has to read the topics of the group first."""
        return metadata_bytes(group) > READ_AT_ONCE_BYTES and not self._is_of(group)

    def learn(self, group: Group, read: "asyncio.Task[frozenset[str] | None]") -> None:
        """Take over the topics that were read for the group."""
        self._group = group
        self._topics = None if read.cancelled() else read.result()

    def topics(self, group: Group) -> frozenset[str] | None:
        """The topics that its members are subscribed to; None while these are unknown."""
        if metadata_bytes(group) <= READ_AT_ONCE_BYTES:
            return subscribed_topics(group)
        return self._topics if self._is_of(group) else None

    def _is_of(self, group: Group) -> bool:
        known = self._group
        return known is not None and known.members is group.members and known.protocol_name == group.protocol_name


class Subscriptions:
    """The readings of one partition of `__consumer_offsets`."""

    def __init__(self) -> None:
        self._reading: dict[asyncio.Task[frozenset[str] | None], None] = {}
        self._turn = asyncio.Lock()
        self._rest = ThreadRest()

    def read(self, group: Group, partitions: Iterable[TopicPartition]) -> "asyncio.Task[frozenset[str] | None]":
        """Begin to read which topics of these partitions the members are subscribed to; None when that is unknown."""
        wanted = frozenset(each.topic for each in partitions)
        task = asyncio.get_running_loop().create_task(self._topics(group, wanted))
        self._reading[task] = None
        task.add_done_callback(self._reading.pop)
        return task

    def close(self) -> None:
        """Read no more: what is being read is unknown."""
        self._rest.give_up()
        for task in self._reading:
            task.cancel()

    async def _topics(self, group: Group, wanted: frozenset[str]) -> frozenset[str] | None:
        if metadata_bytes(group) > MOST_BYTES:
            return None
        async with self._turn:
            try:
                return await asyncio.to_thread(subscribed_among, group, wanted, self._rest.rest)
            except GivenUp:
                return None
