"""A controller that reassigns replicas, too (KIP-455, cluster.md 4.17): `FakeController` with what Apache Kafka's
`PartitionReassignmentReplicas` does. An operator's wish is a call; no request asks for it.

Always true: while a partition is reassigned it has the replicas that it had and those that it is to have; it is done in
the very change that brings the last one that is added into the ISR, and whoever goes then has left the ISR.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controller_elections import SAME_LEADER, partition_change
from fake_controller import FakeController

from eosin.cluster.quorum.rules.image import PartitionRegistration, TopicImage
from eosin.cluster.quorum.rules.replay import merged
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas import alter_partition
from eosin.protocol.schemas.records.metadata import PartitionChangeRecord
from eosin.protocol.types import Message


class ReassigningController(FakeController):
    """The active controller, with reassignments."""

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Begin reassignments; None cancels the one that is under way, if there is one."""
        batch = []
        for name, target in wanted.items():
            topic = self.image.topics.get(name.topic)
            before = None if topic is None else topic.partitions.get(name.partition)
            if topic is None or before is None:
                continue
            if target is not None:
                removing = sorted(set(before.replicas) - set(target))
                adding = sorted(set(target) - set(before.replicas))
                after = self._with(before, (*target, *removing), adding, removing, before.isr)
            else:
                left = tuple(each for each in before.replicas if each not in before.adding)
                isr = tuple(each for each in before.isr if each in left)
                if (not before.adding and not before.removing) or not isr:
                    continue  # nothing to cancel, or only unclean
                after = self._with(before, left, (), (), isr)
            batch.append(self._difference(topic, name.partition, before, after))
        self.write(batch)

    def alter_isrs(
        self, request: alter_partition.AlterPartitionRequest, now_ms: int
    ) -> alter_partition.AlterPartitionResponse:
        """As ever; but whoever loses the leadership by its own request is told so."""

        def told(each: alter_partition.ResponsePartitionData) -> alter_partition.ResponsePartitionData:
            if each.error_code or each.leader_id == request.broker_id:
                return each
            return alter_partition.ResponsePartitionData(
                partition_index=each.partition_index, error_code=ErrorCode.NEW_LEADER_ELECTED
            )

        response = super().alter_isrs(request, now_ms)
        topics = tuple(
            alter_partition.ResponseTopicData(
                topic_id=topic.topic_id, partitions=tuple(told(each) for each in topic.partitions)
            )
            for topic in response.topics
        )
        return alter_partition.AlterPartitionResponse(error_code=response.error_code, topics=topics)

    def write(self, batch: Sequence[Message]) -> None:
        super().write([self._completed(each) if isinstance(each, PartitionChangeRecord) else each for each in batch])

    def _completed(self, change: PartitionChangeRecord) -> PartitionChangeRecord:
        """The same change, and the end of a reassignment if it brings that about."""
        topic = self.image.topic_by_id(change.topic_id)
        assert topic is not None, "only partitions of topics change"
        before = topic.partitions[change.partition_id]
        after = merged(before, change)
        isr = tuple(each for each in after.isr if each not in after.removing)
        if not (after.adding or after.removing) or not isr or not set(after.adding) <= set(isr):
            return change
        left = tuple(each for each in after.replicas if each not in after.removing)
        return self._difference(topic, change.partition_id, before, self._with(after, left, (), (), isr))

    def _with(
        self,
        partition: PartitionRegistration,
        replicas: Sequence[int],
        adding: Sequence[int],
        removing: Sequence[int],
        isr: Sequence[int],
    ) -> PartitionRegistration:
        known = dict(zip(partition.replicas, partition.directories, strict=True))
        return replace(
            partition,
            replicas=tuple(replicas),
            adding=tuple(adding),
            removing=tuple(removing),
            isr=tuple(isr),
            elr=tuple(each for each in partition.elr if each in replicas),
            directories=tuple(known.get(each) or self._only_directory(each) for each in replicas),
        )

    def _difference(
        self, topic: TopicImage, index: int, before: PartitionRegistration, after: PartitionRegistration
    ) -> PartitionChangeRecord:
        """The record that makes `after` of `before`, with the election that this needs. Who loses a replica, or its
        leader, begins a new leader epoch."""
        rules = self._rules(topic, after)
        elected = partition_change(topic.topic_id, index, after, rules)
        if elected is not None:
            after = merged(after, elected)
        goes = not set(before.replicas) <= set(after.replicas)
        return PartitionChangeRecord(
            partition_id=index,
            topic_id=topic.topic_id,
            isr=after.isr,
            leader=after.leader if goes or after.leader != before.leader else SAME_LEADER,
            replicas=after.replicas,
            removing_replicas=after.removing,
            adding_replicas=after.adding,
            leader_recovery_state=-1 if after.recovering == before.recovering else int(after.recovering),
            directories=after.directories,
            eligible_leader_replicas=after.elr,
            last_known_elr=after.last_known_elr,
        )
