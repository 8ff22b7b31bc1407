"""`Produced`: a Produce request, its topics and its batches, from the request to the response."""

from typing import TYPE_CHECKING

from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.records.header import BatchHeader
from eosin.storage.results.log_results import AppendResult, Refused, VerificationGuard

if TYPE_CHECKING:
    from eosin.protocol.schemas.produce import ProduceRequest, TopicProduceData
    from eosin.storage.log.partition_log import PartitionLog


class ProducedBatch:
    """One partition of a Produce request, from the request to its response."""

    __slots__ = ("confirmed_id", "guard", "header", "index", "log", "outcome", "partition", "records", "topic")

    header: BatchHeader
    """Only set when `outcome` is None, or was when the request was read."""
    log: "PartitionLog"
    """Likewise."""
    partition: TopicPartition
    """Set when the topic is known by name."""

    def __init__(self, topic: "str | Uuid", index: int, records: "bytes | bytearray | memoryview | None") -> None:
        self.topic = topic
        """Its name or id, as the request has it."""
        self.index = index
        self.records = records
        """The batch, until it is appended."""
        self.guard: VerificationGuard | None = None
        self.confirmed_id: str | None = None
        """The transactional id whose coordinator has just said that it may be appended under the guard."""
        self.outcome: AppendResult | None = None
        """The result that the response tells; None for a batch that is still to be appended."""


class ProducedTopic:
    """One topic of a Produce request."""

    __slots__ = ("batches", "name", "topic_id")

    def __init__(self, request: "TopicProduceData", batches: list[ProducedBatch]) -> None:
        self.name = request.name
        self.topic_id: Uuid = request.topic_id
        self.batches = batches


class Produced:
    """A whole Produce request, checked as far as it can be without a log."""

    __slots__ = ("acks", "producer", "refused", "topics", "transactional", "transactional_id", "whole")

    def __init__(self, request: "ProduceRequest") -> None:
        self.acks = request.acks
        self.transactional_id = request.transactional_id
        self.topics: list[ProducedTopic] = []
        self.transactional: list[ProducedBatch] = []
        """The transactional batches among those that may be appended."""
        self.refused: list[ProducedBatch] = []
        """Whole batches of those that may not, each with an error of its own."""
        self.producer: tuple[int, int] | None = None
        """The id and epoch of the transactional batches, if there are any."""
        self.whole: Refused | None = None
        """The reason why the request is refused as a whole."""

    def refuse(self, refused: Refused) -> None:
        """Refuse the request as a whole."""
        self.whole = refused
        for topic in self.topics:
            for batch in topic.batches:
                batch.outcome = refused
        self.transactional = []
        self.refused = []
