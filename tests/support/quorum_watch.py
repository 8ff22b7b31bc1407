"""What a metadata follower tells a membership, told instead by asking the one controller of a test."""

import asyncio
from types import TracebackType
from typing import NamedTuple, Self

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.client.versions import negotiate
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData

_ASK = DescribeQuorumRequest(topics=(TopicData("__cluster_metadata", (PartitionData(0),)),))


class Leader(NamedTuple):
    node_id: int
    epoch: int
    host: str
    port: int


class QuorumWatch:
    """The leader and the high watermark of a quorum of one, looked up again and again."""

    def __init__(self, address: str, *, every_s: float = 0.05) -> None:
        self.leader: Leader | None = None
        self.published_offset = -1
        self._address = Address.parse(address)
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    def find_leader(self) -> Leader | None:
        return self.leader

    async def __aenter__(self) -> Self:
        self._connection = await Connection.open(self._address)
        self._versions = await negotiate(self._connection)
        await self._look()
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._connection.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._look()

    async def _look(self) -> None:
        version = self._versions.pick(ApiKey.DESCRIBE_QUORUM)
        response = await self._connection.request(ApiKey.DESCRIBE_QUORUM, _ASK, version=version)
        state = response.topics[0].partitions[0]
        self.leader = Leader(state.leader_id, state.leader_epoch, *self._address)
        self.published_offset = state.high_watermark - 1
