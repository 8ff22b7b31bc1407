"""Members of a streams group (KIP-1071), which run tasks, each of which reads one partition of the group's topic."""

from typing import Any, Final

from eosin.model.features import STREAMS_VERSION
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    Topology,
)
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from simulation.heartbeating_members import REBALANCE_MS, HeartbeatingMembership, error_of

_SUBTOPOLOGY: Final = "0"


class StreamsMembership(HeartbeatingMembership):
    """One member of a group."""

    api = ApiKey.STREAMS_GROUP_HEARTBEAT

    async def _prepare(self) -> None:
        """Have streams groups served, unless the quorum was formatted so."""
        if self._session.world.is_formatted:
            return
        update = FeatureUpdateKey(STREAMS_VERSION, 1, upgrade_type=1)
        request = UpdateFeaturesRequest(feature_updates=(update,))
        await self._session.insist(ApiKey.UPDATE_FEATURES, 1, request, error_of)

    def _heartbeat(self, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(
            group_id=self._group, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id, **fields
        )

    def _says(self, *, owned: bool, everything: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if everything:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, "process_id": self.member_id}
        if self.epoch == 0:
            subtopology = Subtopology(_SUBTOPOLOGY, source_topics=self._topics)
            fields |= {"topology": Topology(0, (subtopology,))}
        if everything or owned:
            tasks = TaskIds(_SUBTOPOLOGY, tuple(each.partition for each in self.assigned))
            fields |= {"active_tasks": (tasks,) if self.assigned else (), "standby_tasks": (), "warmup_tasks": ()}
        return fields

    def _told(self, answer: Any) -> tuple[TopicPartition, ...] | None:
        if answer.active_tasks is None:
            return None
        (topic,) = self._topics
        return tuple(sorted(TopicPartition(topic, n) for each in answer.active_tasks for n in each.partitions))
