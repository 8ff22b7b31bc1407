"""`FetcherPool`: every fetcher of this broker: up to `num.replica.fetchers` connections to each leader (cluster.md
4.6).

Always true: a replica belongs to at most one fetcher, chosen by its partition, at the address that its leader has now;
a fetcher without replicas is stopped.
"""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from eosin.client.addresses import Address
from eosin.cluster.replication.fetch_session import FollowerFetchLimits
from eosin.cluster.replication.fetcher import SYNC_PATIENCE_MS, Fetcher, FetchThrottle
from eosin.cluster.replication.fetcher_task import Dialer, FetcherTask, FollowingBroker
from eosin.cluster.replication.followed_replica import FollowedReplica, nobody
from eosin.coordinator.hashing import java_hash
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import Clock

_LOG: Final = logging.getLogger("eosin.cluster.replication")


class FollowerConfig(NamedTuple):
    """The settings by which this broker follows, with Kafka's defaults (cluster.md 1.2)."""

    num_replica_fetchers: int = 1
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_backoff_ms: int = 1000
    replica_sync_patience_ms: int = SYNC_PATIENCE_MS


class FetcherKey(NamedTuple):
    """One fetcher."""

    leader_id: int
    number: int
    address: Address
    """A leader that has registered with another address is another fetcher's."""


def fetcher_index(partition: TopicPartition, count: int) -> int:
    """The index of the fetcher, among `count` of a leader, that a partition belongs to."""
    return (31 * java_hash(partition.topic) + partition.partition) % count


class FetcherPool:
    """The fetchers of one broker."""

    def __init__(
        self,
        node_id: int,
        config: FollowerConfig,
        *,
        broker: FollowingBroker,
        dial: Dialer,
        clock: Clock,
        throttle: FetchThrottle | None = None,
    ) -> None:
        self._node_id = node_id
        self._config = config
        self._broker = broker
        self._dial = dial
        self._clock = clock
        self._throttle = throttle
        self._tasks: dict[FetcherKey, FetcherTask] = {}
        self._places: dict[FollowedReplica, FetcherKey] = {}
        self._background: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in the background; `close` waits for its end."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def fetch(self, replica: FollowedReplica, leader_id: int, address: Address) -> None:
        """Have `replica` fetched from a leader, from now on."""
        index = fetcher_index(replica.partition, self._config.num_replica_fetchers)
        key = FetcherKey(leader_id, index, address)
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = self._new_task(key)
        if self._places.get(replica) != key:
            self.release(replica)
            self._places[replica] = key
            task.fetcher.add(replica)
            replica.changed = partial(self._changed, task)
        task.start()
        task.wake()

    def release(self, replica: FollowedReplica) -> None:
        """Have `replica` fetched no more. Harmless when it is not."""
        key = self._places.pop(replica, None)
        if key is not None:
            replica.changed = nobody
            self._tasks[key].fetcher.remove(replica)

    def stop_idle(self) -> None:
        """Stop the fetchers that have nothing to fetch."""
        for key in [key for key, task in self._tasks.items() if task.fetcher.is_idle]:
            self.start(self._tasks.pop(key).stop())

    async def close(self) -> None:
        """Stop every fetcher, and wait for what still works on a log."""
        for key in list(self._tasks):
            await self._tasks.pop(key).stop()
        self._places.clear()
        while self._background:
            await asyncio.wait(self._background)

    @property
    def fetchers(self) -> dict[FetcherKey, Fetcher]:
        """Every fetcher that has replicas."""
        return {key: task.fetcher for key, task in self._tasks.items()}

    def _new_task(self, key: FetcherKey) -> FetcherTask:
        config = self._config
        limits = FollowerFetchLimits(
            self._node_id,
            config.replica_fetch_wait_max_ms,
            config.replica_fetch_min_bytes,
            config.replica_fetch_response_max_bytes,
            config.replica_fetch_max_bytes,
        )
        fetcher = Fetcher(
            limits,
            backoff_ms=config.replica_fetch_backoff_ms,
            sync_patience_ms=config.replica_sync_patience_ms,
            throttle=self._throttle,
        )
        client_id = f"broker-{self._node_id}-fetcher-{key.number}"
        return FetcherTask(
            fetcher, key.address, client_id=client_id, broker=self._broker, dial=self._dial, clock=self._clock
        )

    def _changed(self, task: FetcherTask, replica: FollowedReplica) -> None:
        task.fetcher.changed(replica)
        task.wake()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.critical("replication has failed in a way that nobody foresaw", exc_info=error)
