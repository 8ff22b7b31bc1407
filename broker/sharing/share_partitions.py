"""`SharePartitions`: the share partitions that this broker leads, by group (KIP-932; share-partitions.md 2, 5).

Always true: of one group and partition there is at most one at work; what an earlier one still writes is written before
the next one reads. A share partition goes with the leadership of its log, with its topic, with the last session of its
group, and with the feature; there are at most `max_partitions`, whoever asks.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from eosin.broker.sharing.counts import ShareCounts
from eosin.broker.sharing.dead_letters import DeadLetters
from eosin.broker.sharing.led_share_partition import LedSharePartition
from eosin.coordinator.groups.rules.config import ShareConfigOf
from eosin.coordinator.share_states import SharePartition
from eosin.model.cluster import PartitionState
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicIdPartition, TopicPartition, Uuid
from eosin.runtime.clock import Clock
from eosin.runtime.start_now import start_now
from eosin.runtime.turns import in_turns

if TYPE_CHECKING:
    from eosin.broker.fetching.long_poll import LongPolls
    from eosin.coordinator.share_states import ShareStateStore
    from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger(__name__)

CHECKS_PER_TURN: Final = 100
"""Each may be a request to the share coordinator."""
LOST_PER_TURN: Final = 200
"""Each takes some 10 us, and wakes who waits for it."""


class SharePartitions:
    """All of them."""

    def __init__(
        self,
        *,
        store: "ShareStateStore",
        config_of: ShareConfigOf,
        clock: Clock,
        counts: ShareCounts,
        letters: DeadLetters,
        long_polls: "LongPolls",
        max_partitions: int,
    ) -> None:
        self.config_of: Final = config_of
        self.counts: Final = counts
        self._letters = letters
        self._long_polls = long_polls
        self._store = store
        self._clock = clock
        self._max_partitions = max_partitions
        self._by_group: dict[str, dict[SharePartition, LedSharePartition]] = {}
        self._by_name: dict[TopicPartition, dict[SharePartition, LedSharePartition]] = {}
        self._count = 0
        self._writing: dict[SharePartition, LedSharePartition] = {}
        """The dropped ones that still write."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_full = False

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[LedSharePartition]:
        for some in self._by_group.values():
            yield from some.values()

    def of_group(self, group_id: str) -> list[LedSharePartition]:
        """The share partitions of one group."""
        return list(self._by_group.get(group_id, {}).values())

    def known(self, group_id: str, topic_id: Uuid, partition: int) -> LedSharePartition | None:
        """The share partition, if it is in memory."""
        return self._by_group.get(group_id, {}).get(SharePartition(group_id, topic_id, partition))

    def get(self, group_id: str, topic_id: Uuid, name: TopicPartition, log: "PartitionLog") -> LedSharePartition | None:
        """The share partition of a log that this broker leads, which begins to load if it was not in memory; None where
        there are too many."""
        found = self.known(group_id, topic_id, name.partition)
        if found is not None:
            if found.log is log and found.leader_epoch == log.leader_epoch:
                return found
            found.lose(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._count >= self._max_partitions:
            if not self._is_full:
                _LOG.warning("%d share partitions are in memory: no other one is served", self._count)
            self._is_full = True
            return None
        self._is_full = False
        key = SharePartition(group_id, topic_id, name.partition)
        made = LedSharePartition(
            key,
            name,
            log,
            store=self._store,
            config_of=partial(self.config_of, group_id),
            clock=self._clock,
            counts=self.counts,
            letters=self._letters,
            lost=self._forget,
        )
        self._long_polls.watch(log, made.grown)
        self._by_group.setdefault(group_id, {})[key] = made
        self._by_name.setdefault(name, {})[key] = made
        self._count += 1
        self._run(made.load(self._writing.get(key)))
        return made

    def check_epochs(self, group_id: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Have those that are in memory look if their states were begun anew since they were read."""
        if group_id not in self._by_group:
            return

        def check(wanted: TopicIdPartition) -> None:
            found = self.known(group_id, *wanted)
            if found is not None:
                self._run(found.check_epoch())

        self._run(in_turns(list(partitions), check, self._clock, per_turn=CHECKS_PER_TURN))

    def drop(self, partition: LedSharePartition) -> None:
        """Nobody fetches for the partition's group any more. Harmless for one that is gone."""
        if partition.window is None:
            partition.lose(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # it stops to load
        else:
            partition.write_start()
            self._forget(partition)

    async def stop(self) -> None:
        """End all that is under way: writes, after which acknowledgements are answered, come to their end."""
        for each in list(self):
            each.end_letters()
        for each in list(self):
            await each.settled()
        for each in list(self):
            each.lose(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget(self, gone: LedSharePartition) -> None:
        group = self._by_group.get(gone.key.group_id, {})
        if group.get(gone.key) is not gone:
            return
        gone.retire()
        self._long_polls.unwatch(gone.log, gone.grown)
        self._count -= 1
        del group[gone.key]
        if not group:
            del self._by_group[gone.key.group_id]
        of_name = self._by_name[gone.name]
        del of_name[gone.key]
        if not of_name:
            del self._by_name[gone.name]
        if gone.is_writing:
            self._writing[gone.key] = gone
            self._run(self._last_write(gone))

    async def _last_write(self, gone: LedSharePartition) -> None:
        await gone.settled()
        if self._writing.get(gone.key) is gone:
            del self._writing[gone.key]

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = start_now(work)
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    # The cluster's changes ------------------------------------------------------------------------------------------

    def changed(self, partition: TopicPartition, led: PartitionState | None, topic_id: Uuid | None) -> None:
        """A partition has another leader, or epoch: `led` if it is this broker's; or it is one of another topic, now
        that with `topic_id`, or it is gone. What members have of a leader before is lost with it."""
        for each in list(self._by_name.get(partition, {}).values()):
            if topic_id != each.key.topic_id:
                each.lose(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif led is None or led.leader_epoch > each.leader_epoch:
                each.lose(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def lose_all(self) -> None:
        """Share groups are served no more. Some end in each turn of the event loop, and nobody fetches meanwhile."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._run(in_turns(list(self), lambda each: each.lose(error), self._clock, per_turn=LOST_PER_TURN))
