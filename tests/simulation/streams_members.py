"""Members of a streams group (KIP-1071): what `consumer_members.ConsumerMembership` is by the consumer protocol.

Such a member runs tasks, each of which reads one partition of the group's topic. It says which it has once it has come
to what it was told, and everything after an answer that did not come, as Kafka Streams does.
"""

import asyncio
from typing import Any, Final

from eosin.model.features import STREAMS_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    Topology,
)
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from simulation.client import ASK_AGAIN, Session
from simulation.consumer_members import MEMBERS, REBALANCE_MS
from simulation.members import Left
from simulation.network import ConnectionLost
from simulation.producers import Over

_SUBTOPOLOGY: Final = "0"
_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2
_ABANDONED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class StreamsMembership:
    """One member of a group."""

    def __init__(
        self, session: Session, group: str, sources: tuple[TopicPartition, ...], *, instance_id: str | None = None
    ) -> None:
        """With `instance_id` it is a static member (KIP-345). Its id is the name of the session."""
        self._session = session
        self.instance_id = instance_id
        self._group = group
        (self._topic,) = {source.topic for source in sources}
        self.member_id = session.name
        self.epoch = 0
        self.assigned: tuple[TopicPartition, ...] = ()
        self._is_served = False
        self._has_missed = False
        """True if an answer did not come, so that the next request says everything."""
        self._is_reassigned = False
        """True if its tasks have changed while it was at work."""

    @property
    def identity(self) -> tuple[int, str, str | None]:
        """Epoch, member id and instance, as a producer names them."""
        return self.epoch, self.member_id, self.instance_id

    async def join(self) -> None:
        """Take up what is assigned, once there is something. Raises Over."""
        if not self._is_served:
            await self._have_them_served()
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
        it: tasks are given up, and only the epoch that it began with keeps it from committing. Raises Over."""
        if self._session.chance.random() < 0.3:
            self._is_reassigned = not await self._follows()
            while self._is_reassigned and not await self._follows():
                pass
            await asyncio.sleep(0.3 * self._session.chance.random())

    async def _have_them_served(self) -> None:
        update = FeatureUpdateKey(STREAMS_VERSION, 1, upgrade_type=1)
        request = UpdateFeaturesRequest(feature_updates=(update,))
        await self._session.insist(ApiKey.UPDATE_FEATURES, 1, request, _error)
        self._is_served = True

    async def _follows(self) -> bool:
        """Say that it has what it was told, and nothing else; False if the answer tells of other tasks."""
        try:
            await self._beat(says_owned=True)
        except Left:
            return False
        return True

    async def leave(self) -> None:
        """Make room for the others; a static one for its successor."""
        epoch = _LEAVE if self.instance_id is None else _LEAVE_FOR_A_WHILE
        request = StreamsGroupHeartbeatRequest(
            group_id=self._group, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        await self._session.insist(ApiKey.STREAMS_GROUP_HEARTBEAT, 1, request, _error, lane=MEMBERS)

    async def _beat(self, *, says_owned: bool) -> None:
        """Send heartbeats until one is answered. Raises Left if the answer tells of other tasks."""
        while True:
            try:
                answer = await self._session.send(
                    ApiKey.STREAMS_GROUP_HEARTBEAT, 1, self._request(says_owned=says_owned), lane=MEMBERS
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
        if answer.active_tasks is None:
            return
        numbers = (number for each in answer.active_tasks for number in each.partitions)
        before, self.assigned = self.assigned, tuple(sorted(TopicPartition(self._topic, each) for each in numbers))
        if before != self.assigned:
            raise Left

    def _is_final(self, error: ErrorCode) -> bool:
        """True if the member goes on. One that is none any more begins anew with nothing."""
        if error is ErrorCode.NONE:
            return True
        if error is ErrorCode.FENCED_INSTANCE_ID:
            raise Over("another instance has taken its place in the group")
        if error in _ABANDONED:
            had, self.epoch, self.assigned = self.assigned, 0, ()
            if had:
                raise Left
        elif error is not ErrorCode.UNRELEASED_INSTANCE_ID and error not in ASK_AGAIN:
            world = self._session.world
            world.fault(f"{self._session.name} was answered {error.name} as a member of {self._group}")
        return False

    def _request(self, *, says_owned: bool) -> StreamsGroupHeartbeatRequest:
        fields: dict[str, Any] = {}
        if self.epoch == 0 or self._has_missed:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, "process_id": self.member_id}
        if self.epoch == 0:
            topology = Topology(0, (Subtopology(_SUBTOPOLOGY, source_topics=(self._topic,)),))
            fields |= {"topology": topology, "active_tasks": (), "standby_tasks": (), "warmup_tasks": ()}
        elif fields or says_owned:
            owned = TaskIds(_SUBTOPOLOGY, tuple(each.partition for each in self.assigned))
            fields |= {"active_tasks": (owned,) if self.assigned else (), "standby_tasks": (), "warmup_tasks": ()}
        return StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            **fields,
        )


def _error(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]
