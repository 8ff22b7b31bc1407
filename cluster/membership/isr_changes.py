"""`IsrChanges`: asks the controller for changes of ISRs (AlterPartition v3; KIP-497, KIP-903; cluster.md 4.11).

Always true: one request is on its way, with one change of each partition; a change that comes meanwhile waits for the
next request, and replaces one of its partition that has not left yet; a request that fails as a whole is sent again
until it is answered. What the answer for one partition means is the partition's own decision (`replication.isr`).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from eosin.client.errors import ClientError, known_code
from eosin.cluster.membership.channel import ControllerChannel, ControllerUnavailable
from eosin.cluster.replication.rules.isr import IsrChangeResult
from eosin.cluster.replication.rules.led_partition import IsrChange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicIdPartition, Uuid
from eosin.protocol.schemas.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from eosin.runtime.clock import Clock

_LOG: Final = logging.getLogger(__name__)

RETRY_MS: Final = 50
"""After a request that failed as a whole, and before a change whose answer was an error is sent again."""
UNAUTHORIZED_RETRY_MS: Final = 10_000
"""The same when this broker's principal may not ask: nothing but an operator changes that."""


class RequestedChange(NamedTuple):
    """A change and who waits for its answer."""

    change: IsrChange
    answered: Callable[[IsrChangeResult], None]


class IsrChangeQueue:
    """Changes that wait and those on their way: pure."""

    def __init__(self) -> None:
        self._waiting: dict[TopicIdPartition, RequestedChange] = {}
        self._sent: dict[TopicIdPartition, RequestedChange] = {}

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to send."""
        return not (self._waiting or self._sent)

    def add(self, partition: TopicIdPartition, asked: RequestedChange) -> None:
        """Send this change with the next request, instead of any earlier one that has not left."""
        self._waiting[partition] = asked

    def withdraw(self, partition: TopicIdPartition) -> None:
        """Send no change of a partition that is not led any more. One on its way is answered, to nobody's harm."""
        self._waiting.pop(partition, None)

    def request(self, *, node_id: int, broker_epoch: int) -> AlterPartitionRequest:
        """The next request: what has failed as a whole again, else all that waits. A change that another has replaced
        meanwhile does not leave again."""
        for partition in [each for each in self._sent if each in self._waiting]:
            del self._sent[partition]
        if not self._sent:
            self._sent, self._waiting = self._waiting, {}
        topics: dict[Uuid, list[PartitionData]] = {}
        for partition, asked in self._sent.items():
            topics.setdefault(partition.topic_id, []).append(_data(partition.partition, asked.change))
        return AlterPartitionRequest(
            broker_id=node_id,
            broker_epoch=broker_epoch,
            topics=tuple(TopicData(topic_id=topic_id, partitions=tuple(data)) for topic_id, data in topics.items()),
        )

    def handle_response(self, response: AlterPartitionResponse) -> list[tuple[RequestedChange, IsrChangeResult]]:
        """Every change that was on its way, with its answer; one that the controller left out may be tried again."""
        sent, self._sent = self._sent, {}
        answers = dict(_results(response))
        silence = IsrChangeResult(ErrorCode.UNKNOWN_SERVER_ERROR)
        return [(asked, answers.get(partition, silence)) for partition, asked in sent.items()]


class IsrChanges:
    """The one sender of a broker."""

    def __init__(
        self, channel: ControllerChannel, *, node_id: int, broker_epoch: Callable[[], int], clock: Clock
    ) -> None:
        """`channel` is for this purpose alone. `broker_epoch` tells the one of now."""
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._queue = IsrChangeQueue()
        self._sender: asyncio.Task[None] | None = None
        self._last_error = ErrorCode.NONE
        self._is_closed = False

    def request(
        self, topic_id: Uuid, partition: int, change: IsrChange, answered: Callable[[IsrChangeResult], None]
    ) -> None:
        """Ask for a change, however long it takes. `answered` is called once in the event loop, unless another change
        of the partition, or `withdraw`, comes first; it may ask again."""
        if self._is_closed:
            return
        self._queue.add(TopicIdPartition(topic_id, partition), RequestedChange(change, answered))
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send())

    def withdraw(self, topic_id: Uuid, partition: int) -> None:
        """Ask for nothing more of a partition that this broker does not lead any more."""
        self._queue.withdraw(TopicIdPartition(topic_id, partition))

    async def close(self) -> None:
        """Send nothing more; nobody is answered any more."""
        self._is_closed = True
        sender = self._sender
        if sender is not None:
            sender.cancel()
            await asyncio.wait((sender,))
        await self._channel.close()

    async def _send(self) -> None:
        try:
            while not self._queue.is_empty:
                request = self._queue.request(node_id=self._node_id, broker_epoch=self._broker_epoch())
                wait_ms = await self._exchange(request)
                if wait_ms:
                    await self._clock.sleep(wait_ms)
        finally:  # in the step that finds nothing to send, so that whoever asks next starts another
            self._sender = None

    async def _exchange(self, request: AlterPartitionRequest) -> int:
        """Send a request and hand out its answers; how long to wait before the next, in ms."""
        try:
            response: AlterPartitionResponse = await self._channel.request(ApiKey.ALTER_PARTITION, request)
        except (ControllerUnavailable, ClientError) as error:
            _LOG.warning("changes of ISRs cannot be asked for: %s", error)
            return UNAUTHORIZED_RETRY_MS
        refused = _code(response.error_code)
        self._log_refusal(refused)
        if refused is not ErrorCode.NONE:
            return UNAUTHORIZED_RETRY_MS if refused is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else RETRY_MS
        answers = self._queue.handle_response(response)
        for asked, answer in answers:
            asked.answered(answer)
        return 0 if all(answer.error is ErrorCode.NONE for _, answer in answers) else RETRY_MS

    def _log_refusal(self, error: ErrorCode) -> None:
        """One line when requests begin to fail as a whole."""
        if error not in (ErrorCode.NONE, self._last_error):
            _LOG.warning("the controller refuses all changes of ISRs for now: %s", error.name)
        self._last_error = error


def _data(partition: int, change: IsrChange) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        leader_epoch=change.leader_epoch,
        new_isr=change.node_ids,
        new_isr_with_epochs=tuple(BrokerState(node_id, epoch) for node_id, epoch in change.isr),
        partition_epoch=change.partition_epoch,
    )


def _results(response: AlterPartitionResponse) -> Iterator[tuple[TopicIdPartition, IsrChangeResult]]:
    for topic in response.topics:
        for each in topic.partitions:
            yield (
                TopicIdPartition(topic.topic_id, each.partition_index),
                IsrChangeResult(_code(each.error_code), each.leader_epoch, each.partition_epoch, each.isr),
            )


def _code(number: int) -> ErrorCode:
    known = known_code(number)
    return ErrorCode.UNKNOWN_SERVER_ERROR if known is None else known
