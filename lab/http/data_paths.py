"""The paths about topics, transactions and groups."""

from typing import Any, Final

from eosin.lab.common.errors import unknown
from eosin.lab.common.values import StoredBatch, TransactionSeen, TransactionStep
from eosin.lab.http.endpoint import UP, ControlPath
from eosin.lab.http.failures import BAD_REQUEST, BROKER_DOWN, NOT_IDLE, REFUSED
from eosin.lab.http.hosts import Lab
from eosin.lab.http.values import (
    CarriedOut,
    CodeSeen,
    Explanation,
    FeatureLevels,
    GroupNow,
    GroupOffsetSeen,
    GroupQuery,
    InstanceNow,
    InstanceStep,
    Kick,
    NewRecords,
    Offsets,
    PartitionQuery,
    RecordInJson,
    RecordQuery,
    TopicNames,
    TopicToCreate,
    TransactionNow,
    bytes_in,
)
from eosin.lab.operations import Operations
from eosin.lab.options import texts_of

_STEPS: Final = ("write", "send_offsets", "commit", "abort", "init")


# Topics ---------------------------------------------------------------------------------------------------------------


async def topics(lab: Lab) -> TopicNames:
    """The topics, without internal ones."""
    return TopicNames(await lab.broker.topics())


async def create(lab: Lab, body: TopicToCreate) -> CarriedOut:
    """Create a topic."""
    await lab.broker.call(Operations.create_topic, body.name, body.partitions, texts_of(body.configs))
    return CarriedOut()


async def delete(lab: Lab, topic: str) -> CarriedOut:
    """Delete a topic."""
    await lab.broker.call(Operations.delete_topic, topic)
    return CarriedOut()


async def records(lab: Lab, topic: str, query: RecordQuery) -> list[RecordInJson]:
    """The records of a topic as a reader gets them now, by partition and offset."""
    found = await lab.broker.call(Operations.read, topic, query.isolation, query.partition)
    return [RecordInJson.of(each) for each in found if each.offset >= query.from_offset]


async def batches(lab: Lab, topic: str, query: PartitionQuery) -> list[StoredBatch]:
    """The batches in the logs of a topic, of aborted transactions too, and the markers."""
    return await lab.broker.call(Operations.batches, topic, query.partition)


async def produce(lab: Lab, topic: str, body: NewRecords) -> Offsets:
    """Write records, in a transaction if an id is named; a topic that is not there is created."""
    offsets = await lab.broker.produce(
        topic,
        *(bytes_in(each) for each in body.values),
        key=bytes_in(body.key),
        headers={name: bytes_in(value) for name, value in body.headers.items()},
        timestamp=body.timestamp,
        partition=body.partition,
        transactional_id=body.transactional_id,
        commit=body.commit,
    )
    return Offsets(offsets)


# Features -------------------------------------------------------------------------------------------------------------


async def features(lab: Lab, body: FeatureLevels) -> CarriedOut:
    """Bring features of the cluster to these levels, as `share.version` to 1."""
    await lab.broker.call(Operations.set_features, body.levels)
    return CarriedOut()


# Transactions ---------------------------------------------------------------------------------------------------------


async def open_transactions(lab: Lab) -> list[TransactionSeen]:
    """All transactions that are open, by id."""
    return await lab.broker.open_transactions()


async def transaction(lab: Lab, transaction: str) -> TransactionNow:
    """A transactional id and the outcomes of its transactions."""
    seen = await _used(lab, transaction)
    return TransactionNow.of(seen, await lab.broker.call(Operations.outcomes, transaction))


async def timeline(lab: Lab, transaction: str) -> list[TransactionStep]:
    """Steps in the recent life of a transactional id, oldest first."""
    await _used(lab, transaction)
    return await lab.broker.call(Operations.timeline, transaction)


async def abort(lab: Lab, transaction: str) -> CarriedOut:
    """Abort what is open under the id and fence its producer, as an operator does."""
    await _used(lab, transaction)
    await lab.broker.call(Operations.abort_transaction, transaction)
    return CarriedOut()


async def expire(lab: Lab, transaction: str) -> TransactionNow:
    """Jump to the deadline of the open transaction: it times out."""
    await _used(lab, transaction)
    await lab.broker.call(Operations.expire_transaction, transaction)
    return TransactionNow.of(await _used(lab, transaction), await lab.broker.call(Operations.outcomes, transaction))


async def zombie(lab: Lab, transaction: str) -> InstanceNow:
    """One more instance with the identity of the present one; its steps follow by its id."""
    await _used(lab, transaction)
    return _opened(lab, await lab.broker.zombie(transaction))


async def successor(lab: Lab, transaction: str) -> InstanceNow:
    """A new instance, which fences the present one; its steps follow by its id."""
    return _opened(lab, await lab.broker.successor(transaction))


async def step(lab: Lab, instance: str, body: InstanceStep) -> CodeSeen:
    """Have a zombie or a successor do something; the name of the broker's answer."""
    acting = lab.instance(instance)
    if body.step not in _STEPS:
        raise unknown("step", body.step, _STEPS)
    if body.step == "write":
        values = [bytes_in(each) for each in body.values]
        return CodeSeen(await acting.write(body.topic, *values, partition=body.partition))
    if body.step == "send_offsets":
        return CodeSeen(await acting.send_offsets(body.group, body.topic, body.offset, partition=body.partition))
    return CodeSeen(await getattr(acting, body.step)())


def _opened(lab: Lab, instance: Any) -> InstanceNow:
    number = f"i{len(lab.instances) + 1}"
    lab.instances[number] = instance
    return InstanceNow(number, instance.producer_id, instance.producer_epoch, tuple(instance.partitions))


async def _used(lab: Lab, transactional_id: str) -> TransactionSeen:
    seen = await lab.broker.call(Operations.transaction, transactional_id)
    if seen is None:
        raise unknown("transactional id", transactional_id, await lab.broker.call(Operations.transactional_ids))
    return seen


# Groups ---------------------------------------------------------------------------------------------------------------


async def group(lab: Lab, group: str, query: GroupQuery) -> GroupNow:
    """A group; with `topic` its offsets there."""
    broker = lab.broker
    offsets = []
    if query.topic is not None:
        for index in range(await broker.call(Operations.partition_count, query.topic)):
            committed = await broker.call(Operations.committed_offset, group, query.topic, index)
            pending = await broker.call(Operations.pending_offset, group, query.topic, index)
            offsets.append(GroupOffsetSeen(query.topic, index, committed, pending))
    return GroupNow(
        group,
        await broker.call(Operations.group_state, group),
        await broker.call(Operations.generation, group),
        await broker.call(Operations.members, group),
        await broker.call(Operations.lag, group, query.topic),
        offsets,
    )


async def kick(lab: Lab, group: str, body: Kick) -> CarriedOut:
    """Remove a member of a group, or all: they join again, if they are alive."""
    await lab.broker.call(Operations.kick, group, body.member)
    return CarriedOut()


async def expire_member(lab: Lab, group: str, body: Kick) -> CarriedOut:
    """End the session of a member of a group, or of all, as if it had been silent."""
    await lab.broker.call(Operations.expire_member, group, body.member)
    return CarriedOut()


async def rebalance(lab: Lab, group: str) -> CarriedOut:
    """Begin a rebalance of a classic group that no member has caused: all join again, and keep their ids."""
    await lab.broker.call(Operations.rebalance, group)
    return CarriedOut()


async def explain(lab: Lab, subject: str) -> Explanation:
    """The reason for which a transactional id, a partition, a topic or a group is as it is."""
    return Explanation(await lab.broker.explain(subject))


ENDPOINTS: Final = (
    ControlPath("GET", "/topics", topics, errors=UP),
    ControlPath("POST", "/topics", create, status=201, errors=(*UP, REFUSED)),
    ControlPath("DELETE", "/topics/{topic}", delete, errors=UP),
    ControlPath("GET", "/topics/{topic}/records", records, errors=UP),
    ControlPath("POST", "/topics/{topic}/records", produce, status=201, errors=(*UP, REFUSED), takes_any_name=True),
    ControlPath("GET", "/topics/{topic}/batches", batches, errors=UP),
    ControlPath("POST", "/features", features, errors=(BROKER_DOWN, REFUSED)),
    ControlPath("GET", "/transactions", open_transactions, errors=UP),
    ControlPath("GET", "/transactions/{transaction}", transaction, errors=UP),
    ControlPath("GET", "/transactions/{transaction}/timeline", timeline, errors=UP),
    ControlPath("POST", "/transactions/{transaction}/abort", abort, errors=UP),
    ControlPath("POST", "/transactions/{transaction}/expire", expire, errors=(*UP, BAD_REQUEST, NOT_IDLE)),
    ControlPath("POST", "/transactions/{transaction}/zombie", zombie, status=201, errors=UP),
    ControlPath("POST", "/transactions/{transaction}/successor", successor, status=201, errors=UP, takes_any_name=True),
    ControlPath("POST", "/instances/{instance}/steps", step, errors=UP),
    ControlPath("GET", "/groups/{group}", group, errors=UP, takes_any_name=True),
    ControlPath("POST", "/groups/{group}/kick", kick, errors=UP, takes_any_name=True),
    ControlPath("POST", "/groups/{group}/expire", expire_member, errors=(*UP, BAD_REQUEST), takes_any_name=True),
    ControlPath("POST", "/groups/{group}/rebalance", rebalance, errors=(*UP, BAD_REQUEST), takes_any_name=True),
    ControlPath("GET", "/explain/{subject}", explain, errors=UP, takes_any_name=True),
)
