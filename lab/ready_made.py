"""Ready-made snapshots: states that take an application days, or bad luck, to get into.

Each has the topic `orders` with one partition, and the transactional id `tx` unless its name says otherwise, as
`big-group` does with many partitions and a group. A name is
made once in a process, by a broker of its own; what cannot be done over Kafka's protocol is written into its logs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from eosin.client.groups import GroupAdmin
from eosin.client.produce import produce
from eosin.client.producer import Producer
from eosin.coordinator.hashing import partition_for
from eosin.coordinator.transactions.log.encoder import encode_records
from eosin.coordinator.transactions.rules.state import NO_PARTITIONS, TransactionState, Txn
from eosin.lab.behaviours import EOSIN
from eosin.lab.common.errors import unknown
from eosin.lab.disk.points import PREPARED, Moment
from eosin.lab.lab_broker import LabBroker
from eosin.lab.options import READY_MADE, options_of
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, build_batch

if TYPE_CHECKING:
    from eosin.lab.crash.snapshot import Snapshot

TOPIC: Final = "orders"
ID: Final = "tx"
GROUP: Final = "big"
BIG: Final = 100
"""The partitions of the topic, in each of which `big-group` has committed."""
_COMMITS: Final = 50
"""The times that it did."""
LAST_EPOCHS: Final = 32764
"""The epoch before that of the transaction that `open-at-last-epoch` has open."""
_TRANSACTION_VERSION: Final = 2
_TV1_PRODUCE: Final = 11

Recipe = Callable[[LabBroker], Awaitable[None]]


class _HoldMarkers:
    """`Points` at which no marker passes."""

    def watches(self, point: str) -> bool:
        """True before the first marker of a transaction."""
        return point == PREPARED

    def reached(self, moment: Moment) -> Awaitable[None]:
        """Never go on."""
        return asyncio.get_running_loop().create_future()


async def ready_made(name: str) -> "Snapshot":
    """The snapshot of this name. Raises LabError."""
    if name not in _MADE:
        if name not in _RECIPES:
            raise unknown("ready-made snapshot", name, READY_MADE)
        _MADE[name] = await _RECIPES[name]()
    return _MADE[name]


async def aged(transactional_ids: Iterable[str]) -> "Snapshot":
    """A broker at which these transactional ids have used up nearly all epochs of their producer ids."""
    broker = await LabBroker.start(options_of(behaviour=EOSIN))
    try:
        for each in transactional_ids:
            await Producer(broker.operations.client, each).init()
            await _nearly_exhaust(broker, each)
        return await broker.snapshot()
    finally:
        await broker.close()


async def _made(*steps: Recipe, partitions: int = 1, holds_markers: bool = False, **settings: str) -> "Snapshot":
    """All that the disk has after these steps, each of them in a life of its own."""
    options = options_of(
        topics={TOPIC: partitions},
        settings={name.replace("_", "."): each for name, each in settings.items()},
        behaviour=EOSIN,
    )
    snapshot = None
    for step in steps:
        broker = await LabBroker.start(options, snapshot=snapshot, points=_HoldMarkers() if holds_markers else None)
        try:
            await step(broker)
            snapshot = await broker.snapshot()
        finally:
            await broker.close()
    assert snapshot is not None
    return snapshot


async def _write(broker: LabBroker, value: str, *, commit: bool = True) -> None:
    await broker.operations.produce(TOPIC, [value], None, {}, None, 0, ID, commit)


async def _leave_open(broker: LabBroker) -> None:
    await broker.operations.produce(TOPIC, ["before"], None, {}, None, 0, None, True)
    await _write(broker, "open", commit=False)


async def _end(broker: LabBroker, *, commit: bool) -> None:
    seen = await broker.operations.open_zombie(ID)
    await broker.operations.instance_end(seen.number, commit)


async def _prepare(broker: LabBroker, *, commit: bool) -> None:
    await _leave_open(broker)
    await _end(broker, commit=commit)


async def _abort_at_the_end(broker: LabBroker) -> None:
    await _write(broker, "committed")
    await _write(broker, "aborted", commit=False)
    await _end(broker, commit=False)


async def _write_and_age(broker: LabBroker) -> None:
    await _write(broker, "before")
    await _nearly_exhaust(broker, ID)


async def _nearly_exhaust(broker: LabBroker, transactional_id: str) -> None:
    found = broker.inside.txn(transactional_id)
    assert found is not None
    await _record(
        broker, msgspec.structs.replace(found, producer_epoch=LAST_EPOCHS, state=TransactionState.COMPLETE_COMMIT)
    )


async def _expire(broker: LabBroker) -> None:
    await _write(broker, "before")
    found = broker.inside.txn(ID)
    assert found is not None
    await _record(broker, msgspec.structs.replace(found, state=TransactionState.DEAD))


async def _record(broker: LabBroker, txn: Txn) -> None:
    """Write a record of the coordinator's, which the next life reads."""
    logs = broker.node.services.partitions.transaction_state_logs
    log = logs.log(partition_for(txn.transactional_id, logs.partition_count))
    assert not isinstance(log, ErrorCode)
    records = encode_records(
        [msgspec.structs.replace(txn, partitions=NO_PARTITIONS)], transaction_version=_TRANSACTION_VERSION
    )
    log.append_records(records, count=1, now_ms=broker.node.clock.now_ms(), bounded=False)
    await log.durable(log.log_end_offset)


async def _hang(broker: LabBroker) -> None:
    """A batch that comes after the end of its transaction, as brokers took it before KIP-890."""
    await _write(broker, "before")
    client, place = broker.operations.client, TopicPartition(TOPIC, 0)
    producer = Producer(client, ID)
    identity = await producer.init()
    batch = build_batch(
        [NewRecord(None, b"late", broker.node.clock.now_ms(), ())],
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=0,
        timestamp=broker.node.clock.now_ms(),
        transactional=True,
    )
    await produce(client, place, batch, transactional_id=ID, at_most=_TV1_PRODUCE)


async def _commit_often(broker: LabBroker) -> None:
    """Two records in each partition, of which the group has committed the first one as read, again and again."""
    operations, groups = broker.operations, GroupAdmin(broker.operations.client)
    for partition in range(BIG):
        await operations.produce(TOPIC, ["read", "next"], None, {}, None, partition, None, True)
    offsets = {TopicPartition(TOPIC, partition): 1 for partition in range(BIG)}
    for _ in range(_COMMITS):
        await groups.commit(GROUP, offsets)


_RECIPES: Final[dict[str, Callable[[], Awaitable["Snapshot"]]]] = {
    "open-transaction": partial(_made, _leave_open),
    "open-at-last-epoch": partial(_made, _write_and_age, partial(_write, value="open", commit=False)),
    "prepared-commit": partial(
        _made, partial(_prepare, commit=True), holds_markers=True, eosin_end_txn_marker_wait_ms="0"
    ),
    "prepared-abort": partial(
        _made, partial(_prepare, commit=False), holds_markers=True, eosin_end_txn_marker_wait_ms="0"
    ),
    "hanging": partial(_made, _hang, transaction_partition_verification_enable="false"),
    "expired-id": partial(_made, _expire),
    "big-group": partial(_made, _commit_often, partitions=BIG),
    "aborted-tail": partial(_made, _abort_at_the_end),
}
_MADE: Final[dict[str, "Snapshot"]] = {}
"""The ones that this process has made."""
