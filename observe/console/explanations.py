"""`BrokerExplainer`: the sentences and facts of one transactional id, partition or group, as the console's pages ask
for them. The words are those of `eosin explain`."""

from functools import partial
from itertools import islice
from typing import Any, Final

import msgspec

from eosin.broker.handlers.streams_group_describe import ASSIGNOR as STREAMS_ASSIGNOR
from eosin.broker.services import Services
from eosin.coordinator.groups.consumer.rules.group import ConsumerGroup
from eosin.coordinator.groups.rules.group import Group
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.groups.streams.rules.group import StreamsGroup
from eosin.observe.console.group_members import (
    MOST_MEMBERS,
    HeardMs,
    MemberSeen,
    classic_member,
    consumer_group_facts,
    share_group_facts,
    streams_group_facts,
)
from eosin.observe.console.rounds import Rounds
from eosin.observe.explain.explained import Explained
from eosin.observe.explain.facts import GroupFacts, GroupPartition, OpenProducer, PartitionFacts, TransactionFacts
from eosin.observe.explain.group_sentences import explain_group
from eosin.observe.explain.partition_sentences import explain_partition
from eosin.observe.explain.sentences import explain_transaction
from eosin.observe.http.knowledge import Knowledge
from eosin.observe.recorder.events import ClientIdentity
from eosin.observe.survey.any_group import described, kind_of
from eosin.observe.survey.group_positions import GroupPositions
from eosin.observe.survey.shared_partitions import SharedPartitions
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TopicPartition

MOST_OPEN: Final = 20
MOST_PARTITIONS: Final = 200


class Answer(msgspec.Struct, frozen=True):
    """The explanation of one thing, as a page shows it."""

    text: str
    """Both sentences."""
    explained: Explained
    facts: Any
    now_ms: int


class ExplainedGroup(GroupFacts, frozen=True, omit_defaults=True):
    """A group as its page shows it."""

    kind: str = ""
    """`classic`, `consumer`, `share` or `streams`."""
    generation: int = 0
    protocol: str = ""
    """The way partitions are assigned: `range`, `cooperative-sticky`."""
    seen_members: tuple[MemberSeen, ...] = ()


class BrokerExplainer:
    """Explains what one broker knows."""

    def __init__(self, services: Services, knowledge: Knowledge, rounds: Rounds, positions: GroupPositions) -> None:
        self._services = services
        self._knowledge = knowledge
        self._rounds = rounds
        self._positions = positions
        self._shared = SharedPartitions(services)

    async def transaction(self, transactional_id: str) -> Answer | None:
        """One transactional id; None when it is not known here."""
        facts = self._knowledge.transaction_now(transactional_id)
        return None if facts is None else page_of(explain_transaction(facts), facts, facts.now_ms)

    async def partition(self, name: str) -> Answer | None:
        """One partition of this broker; None when it has none of that name."""
        told = await self._knowledge.partition(name)
        if told is None:
            return None
        facts = told if told.error else msgspec.structs.replace(told, open=await self._open(name))
        return page_of(explain_partition(facts), facts, facts.now_ms)

    async def _open(self, name: str) -> tuple[OpenProducer, ...]:
        topic, _, index = name.rpartition("-")
        log = self._services.partitions.replica(TopicPartition(topic, int(index)))
        if isinstance(log, ErrorCode):
            return ()
        held = sorted(
            (entry.transaction_first_offset, entry.producer_id, entry.producer_epoch, entry.last_timestamp)
            for entry in log.producer_state
            if entry.has_transaction
        )
        found = []
        for first_offset, producer_id, producer_epoch, last_ms in held[:MOST_OPEN]:
            transaction = await self._transaction_of(producer_id, producer_epoch, name)
            is_asked = transaction is not None or not self._services.cluster.is_joined
            found.append(OpenProducer(producer_id, producer_epoch, first_offset, last_ms, transaction, is_asked))
        return tuple(found)

    async def _transaction_of(self, producer_id: int, producer_epoch: int, partition: str) -> TransactionFacts | None:
        """The coordinator's facts about a producer's transaction; None if it will not end it."""
        owner = self._rounds.owner(producer_id)
        if owner is None:
            found = await self._services.transactions.find_producer(producer_id)
            owner = None if isinstance(found, ErrorCode) else found.transactional_id
        facts = None if owner is None else self._knowledge.transaction_now(owner)
        return facts if facts is not None and facts.ends(producer_id, producer_epoch, partition) else None

    async def group(self, name: str) -> Answer | None:
        """One group of this broker; None when there is none."""
        groups = self._services.groups
        group = described(groups, name)
        now_ms = self._services.clock.now_ms()
        heard_ms = partial(self._last_heartbeat_ms, name, now_ms=now_ms)
        if isinstance(group, Group):
            about = self._classic(group, now_ms)
        elif isinstance(group, ConsumerGroup):
            cluster, assignors = self._services.cluster, self._services.config.group_consumer_assignors
            about = consumer_group_facts(
                group,
                assignors=assignors,
                topic_by_id=cluster.topic_by_id,
                heard_ms=heard_ms,
            )
        elif isinstance(group, StreamsGroup):
            about = streams_group_facts(group, assignor=STREAMS_ASSIGNOR, heard_ms=heard_ms)
        elif isinstance(group, ShareGroup):
            return await self._share_group(group, now_ms, heard_ms)
        else:
            return None
        parts = await self._positions.of(name)
        behind = [each for each in parts if each.undecided]
        holders = [await self._holder(each) for each in behind[:MOST_OPEN]]
        pending = any(each.pending for each in parts)
        facts = ExplainedGroup(
            group=name,
            now_ms=now_ms,
            partitions=tuple(parts[:MOST_PARTITIONS]),
            held_by=tuple(dict.fromkeys(each for each in holders if each)),
            history=await self._knowledge.group(name),
            pending_in=await self._pending_in(name) if pending else None,
            sources=("the broker",),
            last_commit_ms=groups.last_commit_ms(name),
            kind=kind_of(group),
            **about,
        )
        return page_of(explain_group(facts), facts, facts.now_ms)

    async def _share_group(self, group: ShareGroup, now_ms: int, heard_ms: HeardMs) -> Answer:
        """A share group, which has no committed offsets."""
        assignor, topic_by_id = self._services.config.group_share_assignors[0], self._services.cluster.topic_by_id
        about = share_group_facts(group, assignor=assignor, topic_by_id=topic_by_id, heard_ms=heard_ms)
        shared = await self._shared.of(group)
        facts = ExplainedGroup(
            group=group.group_id,
            now_ms=now_ms,
            history=await self._knowledge.group(group.group_id),
            sources=("the broker",),
            kind=kind_of(group),
            shared=tuple(shared[:MOST_PARTITIONS]),
            **about,
        )
        return page_of(explain_group(facts), facts, facts.now_ms)

    def _classic(self, group: Group, now_ms: int) -> dict[str, Any]:
        """The fields of `ExplainedGroup` that a classic group gives."""
        return {
            "state": group.state.value,
            "members": tuple(
                ClientIdentity(client_id=each.client_id, peer=each.client_host) for each in group.members.values()
            ),
            "generation": group.generation_id,
            "protocol": group.protocol_name or "",
            "seen_members": tuple(
                classic_member(group, each, self._last_heartbeat_ms(group.group_id, each.member_id, now_ms))
                for each in islice(group.members.values(), MOST_MEMBERS)
            ),
        }

    def _last_heartbeat_ms(self, group_id: str, member_id: str, now_ms: int) -> int:
        silent_ms = self._services.groups.silent_ms(group_id, member_id)
        return -1 if silent_ms is None else now_ms - silent_ms

    async def _pending_in(self, group_id: str) -> TransactionFacts | None:
        """The transaction that is open in the group's partition of `__consumer_offsets`, where it is the only one:
        offsets of this group may be another's of that partition."""
        partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, self._services.groups.partition_for(group_id))
        known = [each.transaction for each in await self._open(str(partition)) if each.transaction is not None]
        return known[0] if len(known) == 1 else None

    async def _holder(self, partition: GroupPartition) -> str:
        first = (await self._open(partition.partition))[:1]
        transaction = first[0].transaction if first else None
        return "" if transaction is None else transaction.transactional_id


def page_of(explained: Explained, facts: TransactionFacts | PartitionFacts | GroupFacts, now_ms: int) -> Answer:
    """The answer that a page gets."""
    return Answer(explained.text, explained, facts, now_ms)
