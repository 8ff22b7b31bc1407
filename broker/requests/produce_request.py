"""Reads a Produce request, and decides which of its batches may go to a log.

Owns the checks that need the request, the version or the cluster (storage.md section 4, steps 1 to 6); all that follow
need a log's configuration or state and belong to the log. Nothing here changes anything: a request is read to its end
before the first batch of it is appended, since some errors are those of the whole request.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from eosin.broker.producing.produced import Produced, ProducedBatch, ProducedTopic
from eosin.model.resources import Operation, ResourceType
from eosin.network.many_items import pieces
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import INTERNAL_TOPICS, TopicPartition
from eosin.protocol.records.compression import Compression, CorruptRecords
from eosin.protocol.records.header import COMPRESSION_MASK, MAGIC, BatchHeader, peek_magic, read_header
from eosin.runtime.turns import next_turn
from eosin.security.session import EVERYBODY_MAY
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Refused

if TYPE_CHECKING:
    from eosin.broker.partitions import Partitions
    from eosin.broker.services import Services
    from eosin.network.api import RequestContext
    from eosin.protocol.schemas.produce import ProduceRequest, TopicProduceData
    from eosin.security.session import Session

FIRST_ZSTD_VERSION: Final = 7
FIRST_TOPIC_ID_VERSION: Final = 13

_new_partition: Final[Callable[[tuple[str, int]], TopicPartition]] = partial(tuple.__new__, TopicPartition)
"""`TopicPartition` of a tuple, in half of the time."""

_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NO_TOPIC_ID: Final = Refused(ErrorCode.UNKNOWN_TOPIC_ID)
_BAD_ACKS: Final = Refused(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
_INTERNAL: Final = Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "clients cannot write to internal topics")
_NO_BATCH: Final = Refused(ErrorCode.INVALID_RECORD, "the partition has no record batch")
_OLD_MAGIC: Final = Refused(ErrorCode.INVALID_RECORD, "only record batches of magic 2 are supported")
_NO_ZSTD: Final = Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7 or higher")
_NO_TRANSACTIONAL_ID: Final = Refused(
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional batches without a transactional id"
)
_FOREIGN_TRANSACTIONAL_ID: Final = Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
_FOREIGN_TOPIC: Final = Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_TWO_PRODUCERS: Final = Refused(
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional batches of more than one producer id or epoch"
)


def read_produced(request: "ProduceRequest", context: "RequestContext", services: "Services") -> Produced:
    """Check what `request` holds, step by step in Kafka's order, and find the log of each batch."""
    produced = Produced(request)
    version, transactional_id, partitions = context.api_version, request.transactional_id, services.partitions
    session = None if context.session.authorizer is EVERYBODY_MAY else context.session
    first: BatchHeader | None = None
    whole: Refused | None = None
    for topic in request.topic_data:
        name = _topic_name(topic, context, services)
        named = topic.name if version < FIRST_TOPIC_ID_VERSION else topic.topic_id
        is_open = name is None or session is None or session.may(Operation.WRITE, ResourceType.TOPIC, name)
        of_topic = _refusal_of_topic(name, request.acks)
        batches: list[ProducedBatch] = []
        for partition in topic.partition_data:
            batch = ProducedBatch(named, partition.index, partition.records)
            batches.append(batch)
            shape = _shape(batch, version)
            if name is None:
                batch.outcome = _NO_TOPIC_ID
            else:
                batch.outcome = _find(batch, name, shape or of_topic, partitions) if is_open else _FOREIGN_TOPIC
            if shape is not None:
                continue
            header = batch.header
            if batch.outcome is not None:
                produced.refused.append(batch)
            if not header.is_transactional:
                continue
            if transactional_id is None:
                whole = whole or _NO_TRANSACTIONAL_ID
            if first is None:
                first = header
            elif header.producer_id != first.producer_id or header.producer_epoch != first.producer_epoch:
                whole = whole or _TWO_PRODUCERS
            if batch.outcome is None:
                produced.transactional.append(batch)
        produced.topics.append(ProducedTopic(topic, batches))
    if first is not None:
        produced.producer = (first.producer_id, first.producer_epoch)
        if session is not None and not _may_write(session, transactional_id):
            whole = _FOREIGN_TRANSACTIONAL_ID
    if whole is not None:
        produced.refuse(whole)
    return produced


async def read_in_turns(request: "ProduceRequest", context: "RequestContext", services: "Services") -> list[Produced]:
    """The same of very many partitions: pieces of the request, of which each has time for all that is done with it in
    one turn of the event loop. What refuses one of them as a whole refuses all."""
    read: list[Produced] = []
    whole: Refused | None = None
    producer: tuple[int, int] | None = None
    for topics in pieces(request.topic_data, "partition_data"):
        piece = read_produced(replace(request, topic_data=tuple(topics)), context, services)
        read.append(piece)
        if producer is not None and piece.producer not in (None, producer):
            whole = whole or piece.whole or _TWO_PRODUCERS
        producer = producer or piece.producer
        whole = whole if piece.whole is None else piece.whole
        await next_turn()
    if whole is not None:
        for piece in read:
            piece.refuse(whole)
            await next_turn()
    return read


def _may_write(session: "Session", transactional_id: str | None) -> bool:
    """True if the client may write transactional batches under this id. Every batch of the request was looked at, not
    the first alone (CVE-2018-17196)."""
    if transactional_id is None:
        return True  # `read_produced` refuses it
    return session.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def _topic_name(topic: "TopicProduceData", context: "RequestContext", services: "Services") -> str | None:
    if context.api_version < FIRST_TOPIC_ID_VERSION:
        return topic.name
    known = services.cluster.topic_by_id(topic.topic_id)
    return None if known is None else known.name


def _shape(batch: ProducedBatch, api_version: int) -> Refused | None:
    """A batch of magic 2, in a codec of the version (step 3, as far as the header tells); sets `header`."""
    records = batch.records
    if not records:
        return _NO_BATCH
    try:
        header = batch.header = read_header(records)
    except CorruptRecords as error:
        if peek_magic(records) not in (MAGIC, -1):
            return _OLD_MAGIC
        return Refused(ErrorCode.CORRUPT_MESSAGE, str(error))
    if header.magic != MAGIC:
        return _OLD_MAGIC
    if api_version < FIRST_ZSTD_VERSION and header.attributes & COMPRESSION_MASK == Compression.ZSTD:
        return _NO_ZSTD
    return None


def _refusal_of_topic(name: str | None, acks: int) -> Refused | None:
    """The refusal of every batch for a topic, if its partition is known and its shape is right.

    No client writes to internal topics. Kafka allows it to the client id `__admin_client`, which any client may take;
    one forged record of `__transaction_state` would break every guarantee.

    That enough replicas are in sync (step 6) needs no test as long as the leader is the only one: the least number
    asked for is never more than there are replicas.
    """
    if not -1 <= acks <= 1:
        return _BAD_ACKS
    return _INTERNAL if name in INTERNAL_TOPICS else None


def _find(batch: ProducedBatch, name: str, refused: Refused | None, partitions: "Partitions") -> Refused | None:
    """The first thing that is wrong with a partition (steps 2 to 6), where `refused` is wrong with its batch or topic;
    or None with its `log` set."""
    batch.partition = _new_partition((name, batch.index))
    log = partitions.get(batch.partition)
    if log is _UNKNOWN:
        return Refused(_UNKNOWN)
    if refused is not None:
        return refused
    if not isinstance(log, PartitionLog):
        return Refused(log)
    batch.log = log
    return None
