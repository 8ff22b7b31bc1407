"""Members of a classic consumer group."""

import json

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from eosin.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from simulation.client import Session
from simulation.producers import COORDINATOR, Over

SESSION_MS = 700
REBALANCE_MS = 500
PROTOCOL = "all in turn"


class Left(Exception):
    """The member has to join again, or to take up other partitions."""


class Membership:
    """One member of a group."""

    def __init__(
        self, session: Session, group: str, sources: tuple[TopicPartition, ...], *, instance_id: str | None = None
    ) -> None:
        """With `instance_id` it is a static member (KIP-345)."""
        self._session = session
        self.instance_id = instance_id
        self._group = group
        self._sources = sources
        self.member_id = ""
        self.generation_id = -1
        self.assigned: tuple[TopicPartition, ...] = ()

    @property
    def identity(self) -> tuple[int, str, str | None]:
        """Generation, member id and instance, as a producer names them."""
        return self.generation_id, self.member_id, self.instance_id

    async def join(self) -> None:
        """Become a member of a generation, with an assignment. Raises Over."""
        while True:
            try:
                await self._join()
                return
            except Left:
                await self._session.back_off()

    async def _join(self) -> None:
        joined = await self._session.insist(
            ApiKey.JOIN_GROUP,
            5,
            JoinGroupRequest(
                self._group,
                SESSION_MS,
                REBALANCE_MS,
                self.member_id,
                group_instance_id=self.instance_id,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(PROTOCOL),),
            ),
            _error,
            lane=COORDINATOR,
        )
        error = ErrorCode(joined.error_code)
        if error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            raise Left
        self._check(error)
        self.member_id, self.generation_id = joined.member_id, joined.generation_id
        shares: dict[str, list[TopicPartition]] = {}
        if joined.leader == self.member_id:
            members = sorted(member.member_id for member in joined.members)
            for index, source in enumerate(self._sources):
                shares.setdefault(members[index % len(members)], []).append(source)
        synced = await self._session.insist(
            ApiKey.SYNC_GROUP,
            3,
            SyncGroupRequest(
                self._group,
                self.generation_id,
                self.member_id,
                group_instance_id=self.instance_id,
                assignments=tuple(
                    SyncGroupRequestAssignment(member, json.dumps(share).encode()) for member, share in shares.items()
                ),
            ),
            _error,
            lane=COORDINATOR,
        )
        self._check(ErrorCode(synced.error_code))
        share = json.loads(synced.assignment) if synced.assignment else []
        self.assigned = tuple(TopicPartition(*each) for each in share)

    async def heartbeat(self) -> None:
        """Tell that it lives. Raises Left, Over."""
        answer = await self._session.insist(
            ApiKey.HEARTBEAT,
            3,
            HeartbeatRequest(self._group, self.generation_id, self.member_id, self.instance_id),
            _error,
            lane=COORDINATOR,
        )
        self._check(ErrorCode(answer.error_code))

    async def at_work(self) -> None:
        """Nothing is heard of the group in the middle of a transaction."""

    async def leave(self) -> None:
        """Make room for the others."""
        await self._session.insist(
            ApiKey.LEAVE_GROUP,
            4,
            LeaveGroupRequest(self._group, members=(MemberIdentity(self.member_id, self.instance_id),)),
            _error,
            lane=COORDINATOR,
        )

    def _check(self, error: ErrorCode) -> None:
        if error == ErrorCode.FENCED_INSTANCE_ID and self.instance_id is not None:
            raise Over("another instance has taken its place in the group")
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif error not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._session.world.fault(f"{self._session.name} was answered {error.name} as a member of {self._group}")
        if error != ErrorCode.NONE:
            raise Left


def _error(response: object) -> ErrorCode:
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]
