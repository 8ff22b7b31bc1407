"""Blocks of producer ids from the controller (cluster.md 6.6).

Always true: a block is checked before it is used: whole, not negative, and behind every block that this process got.
"""

from collections.abc import Callable
from typing import Final

from eosin.client.errors import ClientError
from eosin.cluster.membership.channel import ControllerChannel
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

REQUEST_TIMEOUT_MS: Final = 60_000
_IDS_END: Final = 2**63 - 1
"""The first number behind the ids that a block may hold."""


class NoProducerIds(OSError):
    """The controller gave no block that can be used; a later try may get one."""


class QuorumProducerIds:
    """The controller as a source of blocks: the `ProducerIds` of a broker of a quorum."""

    def __init__(self, channel: ControllerChannel, *, node_id: int, broker_epoch: Callable[[], int]) -> None:
        """`channel` is the one for what this broker asks for itself. `broker_epoch` tells the one of now."""
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._end = 0
        """Behind the last block."""

    async def allocate_block(self) -> range:
        """The next block, never given out before. One request; raises NoProducerIds, also for STALE_BROKER_EPOCH,
        after which the next registration's epoch may be accepted. The caller waits before the next try."""
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        try:
            response = await self._channel.request(ApiKey.ALLOCATE_PRODUCER_IDS, request, timeout_ms=REQUEST_TIMEOUT_MS)
        except ClientError as error:
            raise NoProducerIds(str(error)) from None
        block = checked_block(response, after=self._end)
        self._end = block.stop
        return block


def checked_block(response: AllocateProducerIdsResponse, *, after: int) -> range:
    """The block in a response. Raises NoProducerIds for an error, and for a block that would give out an id twice."""
    if response.error_code != ErrorCode.NONE:
        raise NoProducerIds(f"the controller gives no producer ids: error {response.error_code}")
    start, length = response.producer_id_start, response.producer_id_len
    if start < after or length <= 0 or start > _IDS_END - length:
        raise NoProducerIds(f"the controller gave {length} producer ids from {start} on, after ids up to {after}")
    return range(start, start + length)
