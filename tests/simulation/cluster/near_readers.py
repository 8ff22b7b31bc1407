"""Consumers that read from the replica in their own rack (KIP-392; cluster.md 4.20), and a look at what each replica
shows its readers when all is quiet.

A reader does what a consumer's library does: it asks the leader, goes where that sends it, comes back to the leader
when the replica refuses it or cannot be reached, and names the leader epoch that it knows in each request (KIP-320).
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from simulation.client import ASK_AGAIN, Session
from simulation.cluster.world import ClusterWorld
from simulation.history import Fetched, FinalPartition, FinalState, Isolation
from simulation.network import ConnectionLost
from simulation.plan import PARTITIONS
from simulation.readers import Consumer, opened
from simulation.values import COMPACTED, RETAINED, is_tombstone, key_of

VERSIONS = (11, 12)
"""Of Fetch: the first one that tells the rack, and the first one that compares histories."""
ERRANDS = 200
"""So often in turn a reader may be sent from one broker to another without a record, or a refusal, from either."""


class NearReader:
    """A reader in a rack: it follows a partition until all is over, and sometimes begins anew."""

    def __init__(self, world: ClusterWorld, number: int, *, racks: Sequence[str]) -> None:
        self._world = world
        self._name = f"near reader {number}"
        self._session = Session(world, self._name)
        self._session.heeds_epochs = True
        chance = self._chance = random.Random(f"{world.seed}/{self._name}")
        self._rack = chance.choice(racks)
        self._isolation = chance.choice((Isolation.COMMITTED, Isolation.COMMITTED, Isolation.UNCOMMITTED))
        self._version = chance.choice(VERSIONS)
        self._expires = 0.0
        """When it asks the leader again, whatever replica serves it (`metadata.max.age.ms`)."""
        self._errands = 0
        self._begin()

    def _begin(self) -> None:
        self._partition = self._chance.choice((*PARTITIONS, COMPACTED))
        self._offset, self._last_epoch = 0, -1

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Read until all is over."""
        await self._world.look_again(self._session)
        while not is_over():
            await self._read()
            if self._chance.random() < 0.1:
                self._begin()
            await asyncio.sleep(self._chance.random() * 0.05)

    async def _read(self) -> None:
        session, partition, world = self._session, self._partition, self._world
        if world.network.time() > self._expires:
            session.nearest.pop(partition, None)
        asked = world.history.moment()
        near = session.nearest.get(partition)
        try:
            response = await session.send(ApiKey.FETCH, self._version, self._request())
        except ConnectionLost:
            await self._look_again()
            return
        answer: PartitionData = response.responses[0].partitions[0]
        error = ErrorCode(answer.error_code)
        if error == ErrorCode.OFFSET_OUT_OF_RANGE and near is not None:
            session.nearest.pop(partition)  # the leader knows
            self._sent_on()
        elif error:
            if error not in ASK_AGAIN:
                world.fault(f"{self._name} was answered {error.name} at {self._offset} of {partition}")
            await self._look_again()
        elif answer.diverging_epoch.end_offset >= 0:
            world.fault(f"{self._name} was told that {partition} parts below {self._offset}, which was committed")
            self._begin()
        elif answer.preferred_read_replica >= 0:
            if answer.records:
                world.fault(f"{self._name} was sent away from {partition} with records")
            session.nearest[partition] = answer.preferred_read_replica
            self._expires = world.network.time() + 2.0 * self._chance.random()
            self._sent_on()
        else:
            self._take(answer, near, asked)

    def _request(self) -> FetchRequest:
        chance, partition = self._chance, self._partition
        max_bytes = chance.choice((150, 1 << 20))
        wanted = FetchPartition(
            partition.partition,
            current_leader_epoch=self._session.leader_epochs.get(partition, -1),
            fetch_offset=self._offset,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=max_bytes,
        )
        return FetchRequest(
            max_wait_ms=200,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=self._isolation.value,
            topics=(FetchTopic(partition.topic, partitions=(wanted,)),),
            rack_id=self._rack,
        )

    def _take(self, answer: PartitionData, near: int | None, asked: int) -> None:
        history = self._world.history
        piece = opened(answer, self._offset)
        reader = self._name if near is None else f"{self._name} at broker {near}"
        history.fetches.append(
            Fetched(
                reader,
                self._isolation,
                self._partition,
                asked,
                history.moment(),
                self._offset,
                piece.next_offset,
                piece.visible,
                answer.high_watermark,
                answer.last_stable_offset,
            )
        )
        self._errands = 0
        self._offset = piece.next_offset
        if piece.batches:
            self._last_epoch = piece.last_epoch

    def _sent_on(self) -> None:
        """A leader and a follower that send a consumer back and forth for ever show it nothing."""
        self._errands += 1
        if self._errands > ERRANDS:
            self._world.fault(f"{self._name} is sent back and forth at {self._offset} of {self._partition}")
            self._errands = 0

    async def _look_again(self) -> None:
        self._session.nearest.pop(self._partition, None)
        await self._session.back_off()


async def look_at_each(world: ClusterWorld, final: FinalState) -> list[str]:
    """What each broker shows readers of both kinds, when every replica is in sync: the same as all others."""
    found: list[str] = []
    for node_id in world.machines:
        reader = Consumer(world, f"judge at {node_id}")
        for partition, expected in final.partitions.items():
            if partition == RETAINED:
                continue  # each replica begins where it has let go
            reader.session.nearest[partition] = node_id
            seen = await _all_of(reader, partition)
            if partition == COMPACTED:
                is_same = _latest(seen) == _latest(expected)
            else:
                is_same = (seen.batches, seen.committed) == (expected.batches, expected.committed)
            watermarks = seen.high_watermark, seen.last_stable_offset
            if not is_same:
                found.append(f"broker {node_id} shows other records of {partition} than its leader")
            elif watermarks != (expected.high_watermark, expected.last_stable_offset):
                found.append(f"broker {node_id} tells {watermarks} of {partition}, other watermarks than its leader")
        reader.session.leave()
    return found


async def _all_of(reader: Consumer, partition: TopicPartition) -> FinalPartition:
    seen = FinalPartition()
    for isolation in Isolation:
        offset = 0
        while True:
            fetched, piece = await reader.fetch(partition, offset, isolation)
            if isolation is Isolation.COMMITTED:
                seen.committed += fetched.records
            else:
                seen.batches += piece.batches
            if fetched.next_offset == offset:
                break
            offset = fetched.next_offset
    seen.high_watermark, seen.last_stable_offset = fetched.high_watermark, fetched.last_stable_offset
    return seen


def _latest(final: FinalPartition) -> Mapping[str, str]:
    latest = {key_of(seen.value): seen.value for seen in final.committed}
    return {key: text for key, text in latest.items() if not is_tombstone(text)}
