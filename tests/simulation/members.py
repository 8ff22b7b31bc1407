"""Members of a consumer group that copy what is assigned to them, each with a transactional id of its own (KIP-447).

Nothing but the group's generation keeps a member that has lost its partitions from committing.
"""

import asyncio
import json

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from eosin.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from simulation.client import Session, World
from simulation.history import Isolation, Transaction
from simulation.producers import COORDINATOR, Output, Over, TransactionalProducer
from simulation.readers import Consumer
from simulation.values import in_batches, is_copied

SESSION_MS = 700
REBALANCE_MS = 500
PROTOCOL = "all in turn"


class Left(Exception):
    """The member has to join again."""


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


class CopyingMember:
    """A member that copies what it reads, exactly once."""

    def __init__(
        self,
        world: World,
        producer: TransactionalProducer,
        group: str,
        sources: tuple[TopicPartition, ...],
        *,
        instance_id: str | None = None,
    ) -> None:
        self._producer = producer
        self._consumer = Consumer(world, producer.name + " in", group=group)
        self._membership = Membership(self._consumer.session, group, sources, instance_id=instance_id)
        self._chance = producer.session.chance
        self._group = group

    async def run(self, transactions: int) -> None:
        """Until it has carried out so many transactions, or there is nothing left to copy."""
        left, in_vain = transactions, 0
        while left > 0 and in_vain < 3:
            await self._membership.join()
            membership = self._membership
            self._producer.membership = (membership.generation_id, membership.member_id, membership.instance_id)
            try:
                positions = {each: max(0, await self._consumer.committed(each)) for each in self._membership.assigned}
                while left > 0 and in_vain < 3:
                    await self._membership.heartbeat()
                    if await self._copy(positions):
                        left -= 1
                        in_vain = 0
                    else:
                        in_vain += 1
                        await asyncio.sleep(0.1 * self._chance.random())
            except Left:
                continue
        if self._chance.random() < 0.5:
            await self._membership.leave()

    async def _copy(self, positions: dict[TopicPartition, int]) -> bool:
        """One transaction; False when there was nothing to copy. Raises Left when it was not to be committed, since
        only the group knows where to go on then."""
        transaction: Transaction | None = None
        output: Output = {}
        for source, position in positions.items():
            fetched, _ = await self._consumer.fetch(
                source, position, Isolation.COMMITTED, max_bytes=self._chance.choice((200, 1 << 20))
            )
            if fetched.next_offset == position:
                continue
            transaction = transaction or self._producer.begin()
            transaction.group = self._group
            transaction.offsets[source] = fetched.next_offset
            values = [seen.value for seen in fetched.records]
            transaction.reads += values
            copies = [f"{value}>{transaction.name}" for value in values if is_copied(value)]
            if copies:
                target = TopicPartition("b" if source.topic == "a" else "a", self._chance.randint(0, 1))
                output.setdefault(target, []).extend(in_batches(copies))
        if transaction is None:
            return False
        if self._chance.random() < 0.15:
            await asyncio.sleep(1.5 * self._chance.random())  # others may have its partitions when it goes on
        if not await self._producer.run(transaction, output, commit=self._chance.random() < 0.85):
            raise Left
        if not transaction.commit:
            raise Left
        positions.update(transaction.offsets)
        return True

    def end(self) -> None:
        """Without a word to anybody."""
        self._consumer.session.leave()
