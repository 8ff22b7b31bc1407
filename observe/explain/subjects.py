"""Find the meaning of a name: a transactional id, a partition, a topic, a group, a producer id or `broker`, in this
order (console.md 3)."""

import re
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from eosin.client.errors import BrokerError, ClientError
from eosin.observe.explain.broker_sentences import explain_brokers
from eosin.observe.explain.explained import Explained
from eosin.observe.explain.facts import BrokerFacts, GroupFacts, PartitionFacts, ProducerFacts, TransactionFacts
from eosin.observe.explain.group_sentences import FEATURE_LEVEL, explain_group
from eosin.observe.explain.partition_sentences import explain_partition, explain_topic
from eosin.observe.explain.producer_sentences import explain_producer
from eosin.observe.explain.sentences import explain_away, explain_transaction
from eosin.observe.recorder.wording import name
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, is_legal_topic_name

KINDS: Final = ("txn", "partition", "topic", "group", "producer", "broker")
BROKER: Final = "broker"
"""The one subject that is no name: the brokers that are asked."""
_PARTITION: Final = re.compile(r"(?P<topic>.+)-(?P<index>[0-9]{1,9})")
_PRODUCER: Final = re.compile(r"[0-9]{1,18}")
_DENIED: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
_AWAY: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
MOST_PARTITIONS: Final = 200
"""Of a topic, that are asked about."""


class Knows(Protocol):
    """A source of facts: a cluster, or the files of a stopped broker. Each may raise BrokerError, or OSError."""

    @property
    def principal(self) -> str:
        """The asking principal, in words."""

    def now_ms(self) -> int:
        """The time."""

    async def transaction(self, transactional_id: str) -> TransactionFacts | None:
        """One transactional id; None when nobody knows it."""

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic; none when there is no such topic."""

    async def partition(self, partition: TopicPartition) -> PartitionFacts:
        """One partition."""

    async def group(self, group_id: str) -> GroupFacts:
        """One group."""

    async def owner_of(self, producer_id: int) -> str | None:
        """The transactional id that has a producer id."""

    async def producer(self, producer_id: int) -> ProducerFacts | None:
        """A producer id that no transactional id has."""

    async def brokers(self) -> list[BrokerFacts]:
        """The event loops of the brokers that tell of them."""


async def find(cluster: Knows, subject: str, kind: str | None) -> Explained:
    """Explain whatever `subject` is; `kind` says which, where several have that name. Raises ClientError."""
    found: list[tuple[str, Explained]] = []
    denied: dict[str, BrokerError] = {}
    away: dict[str, BrokerError] = {}
    unserved: Explained | None = None
    for each in KINDS if kind is None else (kind,):
        if found and each in ("topic", "producer"):
            continue  # asked for only when nothing else has the name
        try:
            explained = await _explain(cluster, subject, each)
        except BrokerError as error:
            if error.code in _DENIED:
                denied[each] = error
            elif error.code in _AWAY:
                away[each] = error
            else:
                raise
            continue
        if explained is not None and explained.is_known:
            found.append((each, explained))
        elif explained is not None and explained.cause == FEATURE_LEVEL:
            unserved = explained
    if denied and not found:
        raise NotTold(_denial(subject, list(denied), cluster.principal))  # it may be that, and nothing else is
    if away and not found:
        unheard_of, why = next(iter(away.items()))
        return explain_away(subject, _WORDS[unheard_of], why.code)
    if not found and unserved is not None and kind == "group":
        return unserved
    if not found:
        unknown = await _unknown(cluster, subject, kind)
        if unserved is None:
            return unknown
        evidence = (*unknown.evidence, unserved.sentence)
        return msgspec.structs.replace(unknown, evidence=evidence, next=unserved.next)
    (_, first), others = found[0], [each for each, _ in found[1:]]
    if denied:
        unseen = " or a ".join(_WORDS[each] for each in denied)
        rights = _rights(subject, list(denied))
        note = f"whether there is a {unseen} of that name, too, is not told: {cluster.principal} lacks {rights}"
        first = msgspec.structs.replace(first, evidence=(*first.evidence, note))
    if away:
        unheard = " or a ".join(_WORDS[each] for each in away)
        note = f"whether there is a {unheard} of that name, too, is not told: its coordinator is not ready"
        first = msgspec.structs.replace(first, evidence=(*first.evidence, note))
    if others:
        also = f"there is also a {_WORDS[others[0]]} of that name: --as {others[0]}"
        return msgspec.structs.replace(first, evidence=(*first.evidence, also))
    return first


class NotTold(ClientError):
    """The asking principal may not know if there is such a thing; the message says which right is missing."""


def _denial(subject: str, kinds: Sequence[str], principal: str) -> str:
    """The same words whether there is such a thing or not."""
    return (
        f"whether there is {' or '.join(f'a {_WORDS[each]}' for each in kinds)} {name(subject)} is not told to"
        f" {principal}, who lacks {_rights(subject, kinds)} (`eosin acls add` gives it)"
    )


def _rights(subject: str, kinds: Sequence[str]) -> str:
    """The rights that it takes to see `subject`: an operation and a resource for each kind."""
    wanted: dict[str, list[str]] = {}
    for kind in kinds:
        partition = partition_of(subject) if kind == "partition" else None
        of = subject if partition is None else partition.topic
        wanted.setdefault(of, []).append(_RESOURCES[kind])
    return " and ".join(f"DESCRIBE on {' or '.join(kinds)} {name(of)}" for of, kinds in wanted.items())


_RESOURCES: Final = {"txn": "TransactionalId", "partition": "Topic", "topic": "Topic", "group": "Group"}
_WORDS: Final = {
    "txn": "transactional id",
    "partition": "partition",
    "topic": "topic",
    "group": "group",
    "producer": "producer id",
    "broker": "broker",
}


async def _explain(cluster: Knows, subject: str, kind: str) -> Explained | None:
    match kind:
        case "txn":
            facts = await cluster.transaction(subject)
            return None if facts is None else explain_transaction(facts)
        case "partition":
            partition = partition_of(subject)
            return None if partition is None else explain_partition(await cluster.partition(partition))
        case "topic":
            return await _topic(cluster, subject)
        case "group":
            return explain_group(await cluster.group(subject))
        case "broker":
            return explain_brokers(await cluster.brokers()) if subject == BROKER else None
        case _:
            return await _producer(cluster, subject)


async def _topic(cluster: Knows, subject: str) -> Explained | None:
    if not is_legal_topic_name(subject):
        return None
    partitions = (await cluster.partitions_of(subject))[:MOST_PARTITIONS]
    return explain_topic(subject, [await cluster.partition(each) for each in partitions])


async def _producer(cluster: Knows, subject: str) -> Explained | None:
    if not _PRODUCER.fullmatch(subject):
        return None
    transactional_id = await cluster.owner_of(int(subject))
    if transactional_id is None:
        known = await cluster.producer(int(subject))
        return None if known is None else explain_producer(known)
    facts = await cluster.transaction(transactional_id)
    return None if facts is None else explain_transaction(facts)


def partition_of(subject: str) -> TopicPartition | None:
    """The partition that `TOPIC-N` names."""
    found = _PARTITION.fullmatch(subject)
    if found is None or not is_legal_topic_name(found["topic"]):
        return None
    return TopicPartition(found["topic"], int(found["index"]))


async def _unknown(cluster: Knows, subject: str, kind: str | None) -> Explained:
    if kind == "group":
        return explain_group(GroupFacts(subject, cluster.now_ms(), ""))
    if kind == "partition" and (partition := partition_of(subject)) is not None:
        return explain_partition(await cluster.partition(partition))
    if subject == BROKER and kind in ("broker", None):
        return explain_brokers([])
    if kind in ("txn", None):
        return explain_transaction(TransactionFacts(subject, cluster.now_ms(), ""))
    return Explained(subject, f"there is no {_WORDS[kind]} {subject!a}.", is_known=False)
