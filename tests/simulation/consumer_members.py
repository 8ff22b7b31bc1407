"""Members of a consumer group (KIP-848): what `members.Membership` is for classic ones, by the consumer protocol.

Such a member hears of its partitions with heartbeats, and has nothing to join or to fetch between. It says what it has
once it has come to what it was told, and everything after an answer that did not come, as Apache Kafka's client does.
"""

import asyncio
from typing import Any, Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from eosin.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from simulation.client import ASK_AGAIN, Session
from simulation.members import Left
from simulation.network import ConnectionLost
from simulation.producers import Over

REBALANCE_MS: Final = 500
MEMBERS: Final = "members"
"""The lane of heartbeats. Those that come late are told from others by their epochs."""
_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2
_ABANDONED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ConsumerMembership:
    """One member of a group."""

    def __init__(
        self, session: Session, group: str, sources: tuple[TopicPartition, ...], *, instance_id: str | None = None
    ) -> None:
        """With `instance_id` it is a static member (KIP-345). Its id is the name of the session."""
        self._session = session
        self.instance_id = instance_id
        self._group = group
        self._topics = tuple(sorted({source.topic for source in sources}))
        self._names: dict[Uuid, str] = {}
        self.member_id = session.name
        self.epoch = 0
        self.assigned: tuple[TopicPartition, ...] = ()
        self._owned: tuple[TopicPartition, ...] = ()
        """The partitions that it has said it has, or is about to."""
        self._has_missed = False
        """True if an answer did not come, so that the next request says everything."""
        self._is_reassigned = False
        """True if its partitions have changed while it was at work."""

    @property
    def identity(self) -> tuple[int, str, str | None]:
        """Epoch, member id and instance, as a producer names them."""
        return self.epoch, self.member_id, self.instance_id

    async def join(self) -> None:
        """Take up what is assigned, once there is something. Raises Over."""
        if not self._names:
            await self._learn_ids()
        while True:
            if not await self._follows():
                continue
            if self.assigned:
                return
            await asyncio.sleep(0.05 + 0.1 * self._session.chance.random())

    async def heartbeat(self) -> None:
        """Tell that it lives. Raises Left, Over."""
        if self._is_reassigned:
            self._is_reassigned = False
            raise Left
        await self._beat(says_owned=False)

    async def at_work(self) -> None:
        """Heartbeats go on while the application is in the middle of a transaction, which now and then hears nothing of
        it: partitions are given up, and only the epoch that it began with keeps it from committing. Raises Over."""
        if self._session.chance.random() < 0.3:
            self._is_reassigned = not await self._follows()
            while self._is_reassigned and not await self._follows():
                pass
            await asyncio.sleep(0.3 * self._session.chance.random())

    async def _follows(self) -> bool:
        """Say that it has what it was told, and nothing else; False if the answer tells of other partitions."""
        self._owned = self.assigned
        try:
            await self._beat(says_owned=True)
        except Left:
            return False
        return True

    async def leave(self) -> None:
        """Make room for the others; a static one for its successor."""
        epoch = _LEAVE if self.instance_id is None else _LEAVE_FOR_A_WHILE
        request = ConsumerGroupHeartbeatRequest(self._group, self.member_id, epoch, self.instance_id)
        await self._session.insist(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request, _error, lane=MEMBERS)

    async def _learn_ids(self) -> None:
        response = await self._session.insist(
            ApiKey.METADATA,
            12,
            MetadataRequest(tuple(MetadataRequestTopic(name=name) for name in self._topics)),
            lambda response: ErrorCode(max(topic.error_code for topic in response.topics)),
        )
        self._names = {topic.topic_id: topic.name for topic in response.topics}

    async def _beat(self, *, says_owned: bool) -> None:
        """Send heartbeats until one is answered. Raises Left if the answer tells of other partitions."""
        while True:
            try:
                answer = await self._session.send(
                    ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, self._request(says_owned=says_owned), lane=MEMBERS
                )
            except ConnectionLost:
                self._has_missed = True
                await self._session.back_off()
                continue
            if self._is_final(ErrorCode(answer.error_code)):
                break
            await self._session.back_off()
        self._has_missed = False
        self.epoch = answer.member_epoch
        if answer.assignment is None:
            return
        before, self.assigned = self.assigned, self._with_names(answer.assignment.topic_partitions)
        if before != self.assigned:
            raise Left

    def _is_final(self, error: ErrorCode) -> bool:
        """True if the member goes on. One that is none any more begins anew with nothing."""
        if error is ErrorCode.NONE:
            return True
        if error is ErrorCode.FENCED_INSTANCE_ID:
            raise Over("another instance has taken its place in the group")
        if error in _ABANDONED:
            had, self.epoch, self.assigned, self._owned = self.assigned, 0, (), ()
            if had:
                raise Left
        elif error is not ErrorCode.UNRELEASED_INSTANCE_ID and error not in ASK_AGAIN:
            world = self._session.world
            world.fault(f"{self._session.name} was answered {error.name} as a member of {self._group}")
        return False

    def _request(self, *, says_owned: bool) -> ConsumerGroupHeartbeatRequest:
        fields: dict[str, Any] = {}
        if self.epoch == 0 or self._has_missed:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": self._topics}
        if fields or says_owned:
            fields["topic_partitions"] = self._with_ids(self._owned if self.epoch else ())
        return ConsumerGroupHeartbeatRequest(self._group, self.member_id, self.epoch, self.instance_id, **fields)

    def _with_ids(self, places: tuple[TopicPartition, ...]) -> tuple[TopicPartitions, ...]:
        ids = {name: topic_id for topic_id, name in self._names.items()}
        topics = sorted({place.topic for place in places})
        return tuple(
            TopicPartitions(ids[topic], tuple(each.partition for each in places if each.topic == topic))
            for topic in topics
        )

    def _with_names(self, topics: tuple[Any, ...]) -> tuple[TopicPartition, ...]:
        return tuple(
            sorted(TopicPartition(self._names[each.topic_id], number) for each in topics for number in each.partitions)
        )


def _error(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]
