"""Members of a consumer group (KIP-848), which name their partitions by the ids of topics."""

from typing import Any

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from simulation.heartbeating_members import REBALANCE_MS, HeartbeatingMembership


class ConsumerMembership(HeartbeatingMembership):
    """One member of a group."""

    api = ApiKey.CONSUMER_GROUP_HEARTBEAT

    async def _prepare(self) -> None:
        """Learn the ids of the topics."""
        response = await self._session.insist(
            ApiKey.METADATA,
            12,
            MetadataRequest(tuple(MetadataRequestTopic(name=name) for name in self._topics)),
            lambda response: ErrorCode(max(topic.error_code for topic in response.topics)),
        )
        self._names: dict[Uuid, str] = {topic.topic_id: topic.name for topic in response.topics}

    def _heartbeat(self, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(self._group, self.member_id, epoch, self.instance_id, **fields)

    def _says(self, *, owned: bool, everything: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if everything:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": self._topics}
        if everything or owned:
            fields["topic_partitions"] = self._with_ids(self.assigned)
        return fields

    def _told(self, answer: Any) -> tuple[TopicPartition, ...] | None:
        if answer.assignment is None:
            return None
        topics = answer.assignment.topic_partitions
        return tuple(
            sorted(TopicPartition(self._names[each.topic_id], number) for each in topics for number in each.partitions)
        )

    def _with_ids(self, places: tuple[TopicPartition, ...]) -> tuple[TopicPartitions, ...]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        topics = sorted({place.topic for place in places})
        return tuple(
            TopicPartitions(ids[topic], tuple(each.partition for each in places if each.topic == topic))
            for topic in topics
        )
