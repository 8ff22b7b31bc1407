"""Produce (key 0), versions 3-13: append one record batch to each of some partitions.

v3 is the first with batches of magic 2 and with transactions. v5 answers the log start offset. v7 is the first that may
carry zstd. v8 answers which records are at fault, and a message. v9 is the first flexible version. v10 names the
current leader beside NOT_LEADER_OR_FOLLOWER (KIP-951). v11 knows TRANSACTION_ABORTABLE. v12 adds its partitions to the
transaction by itself (KIP-890). v13 names topics by id.

ApiVersions announces 0-13: librdkafka before 2.11.1 compresses only when it can see version 0, and never uses it
(transactions.md 11.12). A request below 3 closes its connection.

Checks come in Kafka's order (storage.md section 4): steps 1 to 6 in `broker/requests/produce_request.py`, verification
by the transaction coordinator in `broker/transactions/verification.py`, the rest in the log. The handler appends
before its first wait, so that pipelined requests reach the logs in the order in which they came. There are three
exceptions. A request whose verification waits appends later, and the next requests of its producer wait behind it. A
large batch is checked in a thread, the first batches of many partitions take turns, and later batches for their logs
wait behind them (`broker/producing/large_batches.py`). A request of hundreds of partitions is read, appended and
answered in turns, and the next ones of its connection begin when it is appended.

After the append the handler waits for durability: acks=1 and acks=-1 both respond when the high watermark has passed
the batch (storage.md 19). With replicas on other brokers acks=1 waits for this broker's disk alone, and acks=-1 is
refused while too few are in sync (cluster.md 4.10). The timeout of the request limits the wait for other replicas only,
as in Kafka: an error for written records would make a client without idempotence write them twice. acks=0 has no
response; an error closes the connection.
"""

from typing import TYPE_CHECKING, Final

from eosin.broker.producing.produced import Produced, ProducedBatch, ProducedTopic
from eosin.broker.requests.produce_request import read_in_turns, read_produced
from eosin.broker.requests.timeout_errors import error_sent
from eosin.broker.services import Services
from eosin.broker.transactions.verification import VerificationRequest, translated
from eosin.model.close_connection import CloseConnection
from eosin.model.resources import Operation, ResourceType
from eosin.network.api import Api, RequestContext
from eosin.network.many_items import ITEMS_PER_TURN, by_topic, connection_held, dropped
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from eosin.runtime.clock import stopwatch_ns
from eosin.runtime.turns import next_turn
from eosin.security.access import Access, Right, on_each
from eosin.storage.log.validation import QUICK_WORK, ValidBatch, validate_quickly
from eosin.storage.results.log_results import Appended, Refused

if TYPE_CHECKING:
    from eosin.broker.producing.large_batches import Checked
    from eosin.cluster.replication.led_partitions import LedPartitions

FIRST_LEADER_VERSION: Final = 10
ALL_REPLICAS: Final = -1
_RECORDED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR})
"""Refusals of a transaction's batches that its coordinator is told of: it may know why."""
TOO_FEW_IN_SYNC: Final = Refused(
    ErrorCode.NOT_ENOUGH_REPLICAS, "fewer replicas are in sync than min.insync.replicas asks for"
)

FLUSH_BACKLOG_MAX_BYTES: Final = 64 * 1024 * 1024
"""Beyond so many bytes that are written and not durable yet, over all partitions, producers with acks=0 wait too."""


async def handle(request: ProduceRequest, context: RequestContext, services: Services) -> ProduceResponse | None:
    """Append, and respond when what was appended is durable; None for acks=0."""
    topics = request.topic_data
    if len(topics) > 1:
        many = len(topics) > ITEMS_PER_TURN or sum(len(each.partition_data) for each in topics) > ITEMS_PER_TURN
    else:
        many = topics != () and len(topics[0].partition_data) > ITEMS_PER_TURN
    if many:
        return await _handle_many(request, context, services)
    produced = read_produced(request, context, services)
    waiting = await _append(produced, context, services)
    if produced.acks == 0:
        _close_on_error(produced)
        if services.partitions.unflushed_bytes > FLUSH_BACKLOG_MAX_BYTES:
            # The request keeps its place on its connection, which slows the client down instead of filling memory.
            await _durable(waiting)
        return None
    if waiting:
        await _until_durable(waiting, produced.acks, request.timeout_ms, services)
    if services.traffic is not None:
        services.traffic.produced(produced.topics)
    return _response(produced, context, services)


async def _handle_many(request: ProduceRequest, context: RequestContext, services: Services) -> ProduceResponse | None:
    """The same in turns with everybody else, a piece of the request in each. The connection begins no other request
    before the last piece is appended, so the order of its batches holds."""
    acks, clock = request.acks, services.clock
    waiting: list[list[ProducedBatch]] = []
    with connection_held(context):
        pieces = await read_in_turns(request, context, services)
        for piece in pieces:
            waiting.append(await _append(piece, context, services))
            await next_turn()
    if acks == 0:
        await _end_without_response(pieces, waiting, services)
        return None
    until_ms = clock.elapsed_ms() + request.timeout_ms
    for some in waiting:
        if some:
            await _until_durable(some, acks, max(0, until_ms - clock.elapsed_ms()), services)
        await next_turn()
    waiting.clear()
    answers: list[PartitionProduceResponse] = []
    endpoints: dict[int, NodeEndpoint] = {}
    last = ""
    pieces.reverse()
    while pieces:
        piece = pieces.pop()
        if services.traffic is not None:
            services.traffic.produced(piece.topics, counted=last)
        last = piece.topics[-1].name
        response = _response(piece, context, services)
        for topic in response.responses:
            answers += topic.partition_responses
        endpoints.update((each.node_id, each) for each in response.node_endpoints)
        await next_turn()
    topics = await by_topic(request.topic_data, "partition_data", answers, _topic, clock)
    return ProduceResponse(topics, node_endpoints=tuple(endpoints.values()))


def _topic(topic: TopicProduceData, answers: tuple[PartitionProduceResponse, ...]) -> TopicProduceResponse:
    return TopicProduceResponse(topic.name, topic.topic_id, answers)


async def _end_without_response(pieces: list[Produced], waiting: list[list[ProducedBatch]], services: Services) -> None:
    for piece in pieces:
        _close_on_error(piece)
        await next_turn()
    for some in waiting:
        if services.partitions.unflushed_bytes > FLUSH_BACKLOG_MAX_BYTES:
            await _durable(some)
        await next_turn()
    waiting.clear()
    await dropped(pieces)


async def _append(produced: Produced, context: RequestContext, services: Services) -> list[ProducedBatch]:
    """Append what may be appended. Returns what is still to become durable."""
    for batch in produced.refused:
        services.partitions.refused_batches.add(batch)
    if produced.transactional and produced.transactional_id is not None:
        verification = services.verification
        question = VerificationRequest(
            produced.transactional_id, produced.transactional, api_version=context.api_version
        )
        if not verification.verify_now(question):
            await verification.verify(question)
    # Nothing is waited for between the end of the verification and the appends: the order of requests is theirs.
    led = services.led_partitions
    if led is not None and produced.acks == ALL_REPLICAS:
        _refuse_without_replicas(produced, led, services)
    appender = _Appender(context, services)
    large = appender.append_all(produced)
    if large:
        await services.large_batches.append(
            large, appender.append, now_ms=appender.now_ms, owner=context.session.owner, connection=context.connection
        )
    return appender.waiting


async def _until_durable(waiting: list[ProducedBatch], acks: int, timeout_ms: int, services: Services) -> None:
    """Wait until what was appended is as durable as its producer wants it, or set its outcome to the error."""
    led = services.led_partitions
    began_ns = 0 if services.traffic is None else stopwatch_ns()
    if led is None:
        await _durable(waiting)
    elif acks == ALL_REPLICAS:
        await led.committed(waiting, timeout_ms=timeout_ms)
    else:
        await led.written(waiting)
    if services.traffic is not None and began_ns:
        services.traffic.durable_waits.observe(stopwatch_ns() - began_ns)
    for batch in waiting:
        services.partitions.refused_batches.add(batch)  # it may have been taken back since


def _refuse_without_replicas(produced: Produced, led: "LedPartitions", services: Services) -> None:
    for topic in produced.topics:
        for batch in topic.batches:
            if batch.outcome is None and not led.has_enough_in_sync(batch.log):
                batch.outcome = TOO_FEW_IN_SYNC
                batch.records = None
                services.partitions.refused_batches.add(batch)


class _Appender:
    """Appends the batches of one request that were not refused, and sets their outcomes."""

    __slots__ = ("_context", "_large_batches", "_new_producers", "_refused_batches", "now_ms", "waiting")

    def __init__(self, context: RequestContext, services: Services) -> None:
        self._context = context
        self._large_batches = services.large_batches
        self._new_producers = services.new_producers
        self._refused_batches = services.partitions.refused_batches
        self.now_ms = services.clock.now_ms()
        self.waiting: list[ProducedBatch] = []
        """The batches that are appended and still to become durable."""

    def append_all(self, produced: Produced) -> "list[Checked]":
        """Append what can be appended now; returns the others, in order."""
        now_ms, large_batches = self.now_ms, self._large_batches
        some_wait = bool(large_batches.waiting)
        budget = large_batches.quick
        budget.left = large_batches.quick_work(self._context.session.owner) if some_wait else QUICK_WORK
        large: list[Checked] = []
        for topic in produced.topics:
            for batch in topic.batches:
                if batch.outcome is not None:
                    batch.records = None
                    continue
                records, log = batch.records, batch.log
                assert records is not None
                valid = validate_quickly(records, log.config, now_ms, batch.header, budget, log.context.moment_of)
                if (
                    valid is None
                    or (some_wait and log in large_batches.waiting)
                    or (log.segments.active is None and not large_batches.admits_first_batch())
                ):
                    large.append((batch, valid))
                else:
                    self.append(batch, valid)
        return large

    def append(self, batch: ProducedBatch, valid: ValidBatch | Refused) -> None:
        """Append a batch that was checked, or keep its refusal."""
        batch.records = None
        if not isinstance(valid, ValidBatch):
            batch.outcome = valid
            self._refused_batches.add(batch)
            return
        log, producer_id = batch.log, batch.header.producer_id
        refused = self._refused_batches.refusal(batch) if self._refused_batches.is_any else None
        if refused is None and producer_id >= 0 and log.producer_state.get(producer_id) is None:
            refused = self._new_producers.came(producer_id, self._context)
        if refused is not None:
            batch.outcome = refused
            return
        outcome = log.append(valid.data, now_ms=self.now_ms, guard=batch.guard, header=valid.header)
        if isinstance(outcome, Appended):
            batch.outcome = outcome
            if batch.confirmed_id is not None:
                log.producer_state.confirmed(
                    producer_id=producer_id,
                    producer_epoch=batch.header.producer_epoch,
                    transactional_id=batch.confirmed_id,
                )
            if log.high_watermark <= outcome.last_offset:
                self.waiting.append(batch)
            return
        if outcome.error is ErrorCode.CONCURRENT_TRANSACTIONS:
            outcome = translated(outcome, self._context.api_version)
        batch.outcome = outcome
        self._refused_batches.add(batch)


def _close_on_error(produced: Produced) -> None:
    for topic in produced.topics:
        for batch in topic.batches:
            if isinstance(batch.outcome, Refused):
                error = batch.outcome.error
                raise CloseConnection(f"Produce with acks=0 to {topic.name}-{batch.index}: {error.name}")


async def _durable(waiting: list[ProducedBatch]) -> None:
    """Wait until each batch is durable, or set its outcome to the error for which it cannot be."""
    futures = []
    for batch in waiting:
        assert isinstance(batch.outcome, Appended)
        futures.append(batch.log.durable(batch.outcome.last_offset + 1))
    for batch, future in zip(waiting, futures, strict=True):
        error = await future
        if error != ErrorCode.NONE:
            batch.outcome = Refused(error)


def _response(produced: Produced, context: RequestContext, services: Services) -> ProduceResponse:
    topics = []
    moved = False
    for topic in produced.topics:
        partitions = []
        for batch in topic.batches:
            outcome = batch.outcome
            if isinstance(outcome, Appended):
                answer = PartitionProduceResponse(
                    batch.index, 0, outcome.base_offset, outcome.log_append_time_ms, outcome.log_start_offset
                )
            else:
                assert outcome is not None
                if outcome.error in _RECORDED and produced.transactional_id is not None:
                    outcome = _partition_response(batch, outcome, produced.transactional_id, context, services)
                answer = _refusal(batch, outcome, services)
                moved = moved or outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
            partitions.append(answer)
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, tuple(partitions)))
    if moved and context.api_version >= FIRST_LEADER_VERSION:
        return ProduceResponse(tuple(topics), node_endpoints=_endpoints(produced.topics, context, services))
    return ProduceResponse(tuple(topics))


def _partition_response(
    batch: ProducedBatch, refused: Refused, transactional_id: str, context: RequestContext, services: Services
) -> Refused:
    """The refusal of an old epoch, or the error that says that the producer's transaction has only timed out; a refusal
    for want of space is recorded alone."""
    reply = services.transactions.refusal(
        transactional_id,
        refused.error,
        producer_id=batch.header.producer_id,
        producer_epoch=batch.header.producer_epoch,
        who=context,
        what=refused.message or "",
    )
    error = error_sent(ApiKey.PRODUCE, reply, context, services.config)
    return refused if error is refused.error else Refused(error, "the transaction timed out and was aborted")


def _refusal(batch: ProducedBatch, refused: Refused, services: Services) -> PartitionProduceResponse:
    current_leader = LeaderIdAndEpoch()
    if refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        current_leader = LeaderIdAndEpoch(*services.partitions.leader(batch.partition))
    return PartitionProduceResponse(
        index=batch.index,
        error_code=refused.error,
        base_offset=-1,
        record_errors=tuple(BatchIndexAndErrorMessage(index, message) for index, message in refused.record_errors),
        error_message=refused.message,
        current_leader=current_leader,
    )


def _endpoints(topics: list[ProducedTopic], context: RequestContext, services: Services) -> tuple[NodeEndpoint, ...]:
    """The addresses of the leaders that the response names."""
    leaders = {
        services.partitions.leader(batch.partition)[0]
        for topic in topics
        for batch in topic.batches
        if isinstance(batch.outcome, Refused) and batch.outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    }
    return tuple(
        NodeEndpoint(*broker) for broker in services.cluster.brokers(context.listener) if broker.node_id in leaders
    )


def refuse(request: ProduceRequest, context: RequestContext, error: ErrorCode) -> ProduceResponse | None:
    """`error` for every partition; nothing for acks=0."""
    if request.acks == 0:
        return None
    return ProduceResponse(
        tuple(
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                tuple(PartitionProduceResponse(each.index, error, -1) for each in topic.partition_data),
            )
            for topic in request.topic_data
        )
    )


API: Final = Api(
    key=ApiKey.PRODUCE,
    versions=range(3, 14),
    handle=handle,
    refuse=refuse,
    advertised=range(0, 14),
    access=Access(
        (
            Right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, note="with a transactional batch"),
            on_each(Operation.WRITE, ResourceType.TOPIC),
        )
    ),
)
