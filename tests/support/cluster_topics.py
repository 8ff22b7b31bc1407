"""Topics of a cluster of several machines by Eosin's own client: what `kafka-topics.sh` and its kin do, which start a
JVM for each line. A test whose subject is such a tool runs it (`kraft_node.py`).

    topics = ClusterTopics(f"{first.address},{second.address}")
    name = topics.create((1, 2))  # one partition, led by broker 1
    topics.wait_for(name, leader=1, isr={1, 2})
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from waiting import HANG_S, wait_until
from wire import unique

from eosin.client.admin import ADMIN_TIMEOUT_MS, Admin
from eosin.client.client import Client
from eosin.client.errors import check
from eosin.client.security.connection_security import ConnectionSecurity
from eosin.client.security.settings import read_settings
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas import alter_partition_reassignments as reassignments
from eosin.protocol.schemas import describe_topic_partitions as described
from eosin.protocol.schemas import elect_leaders
from eosin.protocol.schemas.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from eosin.protocol.schemas.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

Found = TypeVar("Found")

NOBODY: Final = -1
"""The id in place of a leader's."""


class Partition(NamedTuple):
    """A partition, as a broker tells of it."""

    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    elr: frozenset[int]
    """Replicas that are eligible though they are not in sync (KIP-966)."""


class ClusterTopics:
    """Asks any of these brokers."""

    def __init__(self, addresses: str, command_config: str | None = None) -> None:
        """`command_config`: a file with the settings of TLS and a login, as tools take it."""
        self._addresses = addresses
        self._command_config = command_config

    def create(
        self,
        *partitions: Sequence[int],
        name: str | None = None,
        configs: Mapping[str, str] | None = None,
        all_alive: bool = True,
    ) -> str:
        """Make a topic with these replicas of each partition, of which the first one leads: its name. All of the
        brokers know it then. Unless `all_alive` is false, it waits before for those that have just been started: who
        is fenced would not lead and not be in sync."""
        name = name or unique("topic")
        if all_alive:
            self.wait_for_brokers(*(each for replicas in partitions for each in replicas))
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(
                CreatableReplicaAssignment(index, tuple(replicas)) for index, replicas in enumerate(partitions)
            ),
            configs=tuple(CreatableTopicConfig(*each) for each in (configs or {}).items()),
        )
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=ADMIN_TIMEOUT_MS)

        async def ask(client: Client) -> None:
            answer: CreateTopicsResponse = await client.request(ApiKey.CREATE_TOPICS, request)
            check(answer.topics[0].error_code, f"creating {name}", answer.topics[0].error_message)

        self._ask(ask)
        for address in self._addresses.split(","):
            one = ClusterTopics(address, self._command_config)
            wait_until(lambda one=one: all(each.leader != NOBODY for each in one.partitions(name)))
        return name

    def wait_for_brokers(self, *node_ids: int) -> None:
        """Wait until all of these are told of: registered, and not fenced."""
        wait_until(lambda: self._ask(lambda client: Admin(client).topics()).brokers.keys() >= set(node_ids))

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self._ask(lambda client: Admin(client).delete_topics([name]))

    def names(self) -> set[str]:
        """The names of all topics, internal ones too."""
        return set(self._ask(lambda client: Admin(client).topics()).topics)

    def settings(self, name: str) -> dict[str, str | None]:
        """The settings of a topic."""
        return {
            setting: each.value
            for setting, each in self._ask(lambda client: Admin(client).describe_configs(name)).items()
        }

    def alter(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic; None puts one back."""
        self._ask(lambda client: Admin(client).alter_configs(name, changes))

    def partitions(self, name: str) -> list[Partition]:
        """All of a topic's partitions, in order."""

        async def ask(client: Client) -> list[Partition]:
            request = described.DescribeTopicPartitionsRequest((described.TopicRequest(name),))
            answer: described.DescribeTopicPartitionsResponse = await client.request(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS, request
            )
            (topic,) = answer.topics
            check(topic.error_code, f"describing {name}")
            return [
                Partition(
                    each.leader_id,
                    each.replica_nodes,
                    frozenset(each.isr_nodes),
                    frozenset(each.eligible_leader_replicas or ()),
                )
                for each in sorted(topic.partitions, key=lambda partition: partition.partition_index)
            ]

        return self._ask(ask)

    def partition(self, name: str) -> Partition:
        """The only partition of a topic."""
        (only,) = self.partitions(name)
        return only

    def wait_for(self, name: str, *, leader: int | None = None, isr: Iterable[int] | None = None) -> None:
        """Wait until a broker tells of the topic's only partition so."""
        wanted = None if isr is None else frozenset(isr)

        def is_so() -> bool:
            now = self.partition(name)
            return (leader is None or now.leader == leader) and (wanted is None or now.isr == wanted)

        wait_until(is_so, lambda: self.partition(name), every_s=0.1)

    def are_in_sync(self) -> bool:
        """True when every replica of every partition is."""
        found = self._ask(lambda client: Admin(client).topics())
        return all(
            len(each.in_sync) == len(each.replicas)
            for topic in found.topics.values()
            for each in topic.partitions.values()
        )

    def elect(self, name: str, *, partition: int = 0, unclean: bool = False) -> ErrorCode:
        """Have the controllers elect the leader of a partition: the preferred one, or any."""
        asked = (elect_leaders.TopicPartitions(name, (partition,)),)
        request = elect_leaders.ElectLeadersRequest(int(unclean), asked, ADMIN_TIMEOUT_MS)

        async def ask(client: Client) -> ErrorCode:
            answer: elect_leaders.ElectLeadersResponse = await client.request(ApiKey.ELECT_LEADERS, request)
            check(answer.error_code, f"electing the leader of {name}")
            return ErrorCode(answer.replica_election_results[0].partition_result[0].error_code)

        return self._ask(ask)

    def move(self, replicas: Mapping[tuple[str, int], tuple[int, ...]]) -> None:
        """Give partitions to other brokers, and wait until those have them."""
        wanted = tuple(
            reassignments.ReassignableTopic(name, (reassignments.ReassignablePartition(index, to),))
            for (name, index), to in replicas.items()
        )

        async def begin(client: Client) -> None:
            request = reassignments.AlterPartitionReassignmentsRequest(topics=wanted)
            answer: reassignments.AlterPartitionReassignmentsResponse = await client.request(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS, request
            )
            check(answer.error_code, "moving partitions", answer.error_message)
            for topic in answer.responses:
                for each in topic.partitions:
                    check(each.error_code, f"moving {topic.name}-{each.partition_index}", each.error_message)

        async def under_way(client: Client) -> ListPartitionReassignmentsResponse:
            answer: ListPartitionReassignmentsResponse = await client.request(
                ApiKey.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest()
            )
            check(answer.error_code, "listing moves", answer.error_message)
            return answer

        self.wait_for_brokers(*(each for to in replicas.values() for each in to))
        self._ask(begin)
        wait_until(
            lambda: not self._ask(under_way).topics, lambda: f"not moved: {self._ask(under_way).topics}", every_s=0.1
        )

    def _ask(self, what: Callable[[Client], Awaitable[Found]]) -> Found:
        async def asked() -> Found:
            security = None
            if self._command_config is not None:
                security = ConnectionSecurity.of(read_settings(self._command_config))
            async with Client(self._addresses, security=security, retry_timeout_ms=HANG_S * 1000) as client:
                return await client.retry(lambda: what(client))

        return asyncio.run(asked())
