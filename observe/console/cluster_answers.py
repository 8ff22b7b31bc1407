"""`ClusterAnswers`: the sentences and facts of one transactional id, partition, group or topic of any Kafka
cluster. The words, and the facts behind them, are those of `eosin explain`."""

import re
from typing import Final

import msgspec

from eosin.broker.config.entries import ConfigSource
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.metadata import TopicInfo
from eosin.client.transactions import TransactionAdmin
from eosin.observe.console.cluster_rounds import ClusterRounds
from eosin.observe.console.explanations import (
    Answer,
    ExplainedGroup,
    page_of,
)
from eosin.observe.console.group_members import MOST_MEMBERS, described_member
from eosin.observe.console.topic_view import (
    MOST_GROUPS,
    MOST_PARTITIONS,
    MOST_PRODUCERS,
    SOURCES,
    ConfigSeen,
    GroupSeen,
    ProducerSeen,
    ReplicasSeen,
    TopicAnswer,
)
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.group_sentences import explain_group
from eosin.observe.explain.partition_sentences import explain_partition
from eosin.observe.explain.sentences import explain_transaction
from eosin.observe.explain.subjects import partition_of
from eosin.observe.survey.group_positions import behind
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition, is_legal_topic_name, uuid_text

_MARKUP: Final = re.compile(r"</?[a-z]+[^<>]*>")
"""Apache Kafka documents its settings in HTML."""
MOST_DESCRIBED: Final = 50
"""Partitions of a topic that are asked for their producers."""


class ClusterAnswers:
    """Asks one cluster."""

    def __init__(self, client: Client, rounds: ClusterRounds, facts: ClusterFacts) -> None:
        self._client = client
        self._rounds = rounds
        self._facts = facts

    async def transaction(self, transactional_id: str) -> Answer | None:
        """One transactional id; None when no coordinator knows it. Raises ClientError."""
        facts = await self._facts.transaction(transactional_id)
        return None if facts is None else page_of(explain_transaction(facts), facts, facts.now_ms)

    async def partition(self, name: str) -> Answer | None:
        """One partition; None when there is none of that name. Raises ClientError."""
        partition = partition_of(name)
        facts = None if partition is None else await self._facts.partition(partition)
        if facts is None or not facts.is_known:
            return None
        return page_of(explain_partition(facts), facts, facts.now_ms)

    async def group(self, name: str) -> Answer | None:
        """One group; None when there is none. Raises ClientError."""
        told = await self._facts.group(name)
        if not told.state:
            return None
        known = self._rounds.groups.known.get(name)
        facts = msgspec.convert(msgspec.to_builtins(told), ExplainedGroup)
        if known is not None:
            group = known.group
            members = tuple(map(described_member, group.members[:MOST_MEMBERS]))
            facts = msgspec.structs.replace(facts, protocol=group.assignor, seen_members=members, kind=group.type)
        return page_of(explain_group(told), facts, facts.now_ms)

    async def topic(self, name: str) -> TopicAnswer | None:
        """The page of one topic; None when there is none of that name. Raises ClientError."""
        if not is_legal_topic_name(name):
            return None
        topic = (await Admin(self._client).topics([name])).topics.get(name)
        if topic is None or not topic.partitions:
            return None
        replicas = [
            ReplicasSeen(index, info.leader, list(info.replicas), list(info.in_sync))
            for index, info in sorted(topic.partitions.items())[:MOST_PARTITIONS]
        ]
        producers, known = await self._producers(topic)
        groups = self._groups(name)
        return TopicAnswer(
            name,
            uuid_text(topic.topic_id),
            self._facts.now_ms(),
            topic.is_internal,
            len(topic.partitions),
            replicas,
            await self._configs(name),
            producers,
            known,
            groups[:MOST_GROUPS],
            max(0, len(groups) - MOST_GROUPS),
        )

    async def _configs(self, name: str) -> list[ConfigSeen]:
        """The settings; none where this user may not know them."""
        try:
            found = await Admin(self._client).describe_configs(name, documentation=True)
        except BrokerError as error:
            if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            return []
        known = {int(each): each for each in ConfigSource}
        return [
            ConfigSeen(
                each.name,
                None if each.is_sensitive else each.value,
                SOURCES.get(known.get(each.config_source, ConfigSource.DEFAULT), "default"),
                _MARKUP.sub("", each.documentation or ""),
                each.config_source == ConfigSource.DYNAMIC_TOPIC,
            )
            for each in sorted(found.values(), key=lambda setting: setting.name)
        ]

    async def _producers(self, topic: TopicInfo) -> tuple[list[ProducerSeen], int]:
        """The producers that the leaders know; none where this user may not read the topic."""
        found: list[ProducerSeen] = []
        led = [index for index, info in sorted(topic.partitions.items()) if info.leader >= 0]
        for index in led[:MOST_DESCRIBED]:
            try:
                states = await TransactionAdmin(self._client).producers(TopicPartition(topic.name, index))
            except BrokerError:
                continue
            found += [
                ProducerSeen(
                    f"{index}/{each.producer_id}",
                    index,
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.current_txn_start_offset,
                    self._rounds.transactions.owner(each.producer_id) or "",
                )
                for each in states
            ]
        found.sort(key=lambda each: (each.first_offset < 0, -each.last_ms))
        return found[:MOST_PRODUCERS], len(found)

    def _groups(self, topic: str) -> list[GroupSeen]:
        """The groups with offsets or partitions of the topic, of the last rounds."""
        found = []
        for name, (group, parts, _) in sorted(self._rounds.groups.known.items()):
            of_topic = [each for each in parts if each.partition.rpartition("-")[0] == topic]
            if not of_topic:
                continue
            sums = behind(of_topic)
            found.append(
                GroupSeen(
                    name,
                    group.state,
                    len(group.members),
                    len(of_topic),
                    sums.lag,
                    sums.is_exact,
                    sums.undecided,
                    sums.uncommitted,
                )
            )
        return found
