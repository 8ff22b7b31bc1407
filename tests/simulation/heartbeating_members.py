"""Members that hear with heartbeats what they are to have, and have nothing to join or to fetch between: what
`members.Membership` is for classic ones, by the protocols of consumer groups (KIP-848) and streams groups (KIP-1071).

Such a member says what it has once it has come to what it was told, and everything after an answer that did not come,
as Apache Kafka's clients do.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from simulation.client import ASK_AGAIN, Session
from simulation.members import Left
from simulation.network import ConnectionLost
from simulation.producers import Over

REBALANCE_MS: Final = 500
_MEMBERS: Final = "members"
"""The lane of heartbeats. Those that come late are told from others by their epochs."""
_VERSION: Final = 1
_LEAVE: Final = -1
_LEAVE_FOR_A_WHILE: Final = -2
_ABANDONED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class HeartbeatingMembership(ABC):
    """One member of a group."""

    api: ClassVar[ApiKey]
    """The heartbeats of its protocol."""

    def __init__(
        self, session: Session, group: str, sources: tuple[TopicPartition, ...], *, instance_id: str | None = None
    ) -> None:
        """With `instance_id` it is a static member (KIP-345). Its id is the name of the session."""
        self._session = session
        self.instance_id = instance_id
        self._group = group
        self._topics = tuple(sorted({source.topic for source in sources}))
        self.member_id = session.name
        self.epoch = 0
        self.assigned: tuple[TopicPartition, ...] = ()
        self._is_prepared = False
        self._has_missed = False
        """True if an answer did not come, so that the next request says everything."""
        self._is_reassigned = False
        """True if what it is to have has changed while it was at work."""

    @property
    def identity(self) -> tuple[int, str, str | None]:
        """Epoch, member id and instance, as a producer names them."""
        return self.epoch, self.member_id, self.instance_id

    async def join(self) -> None:
        """Take up what is assigned, once there is something. Raises Over."""
        if not self._is_prepared:
            await self._prepare()
            self._is_prepared = True
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

    async def leave(self) -> None:
        """Make room for the others; a static one for its successor."""
        epoch = _LEAVE if self.instance_id is None else _LEAVE_FOR_A_WHILE
        await self._session.insist(self.api, _VERSION, self._heartbeat(epoch), error_of, lane=_MEMBERS)

    @abstractmethod
    async def _prepare(self) -> None:
        """What has to be done before it joins for the first time."""

    @abstractmethod
    def _heartbeat(self, epoch: int, **fields: Any) -> Any:
        """A request at this epoch."""

    @abstractmethod
    def _says(self, *, owned: bool, everything: bool) -> dict[str, Any]:
        """The fields of a request that say `everything`, or what it has, or nothing."""

    @abstractmethod
    def _told(self, answer: Any) -> tuple[TopicPartition, ...] | None:
        """What an answer says that it is to have, in order; None if it does not tell."""

    async def _follows(self) -> bool:
        """Say that it has what it was told, and nothing else; False if the answer tells of something else."""
        try:
            await self._beat(says_owned=True)
        except Left:
            return False
        return True

    async def _beat(self, *, says_owned: bool) -> None:
        """Send heartbeats until one is answered. Raises Left if the answer tells of something else."""
        while True:
            says = self._says(owned=says_owned, everything=self.epoch == 0 or self._has_missed)
            request = self._heartbeat(self.epoch, **says)
            try:
                answer = await self._session.send(self.api, _VERSION, request, lane=_MEMBERS)
            except ConnectionLost:
                self._has_missed = True
                await self._session.back_off()
                continue
            if self._is_final(ErrorCode(answer.error_code)):
                break
            await self._session.back_off()
        self._has_missed = False
        self.epoch = answer.member_epoch
        told = self._told(answer)
        if told is not None and told != self.assigned:
            self.assigned = told
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


def error_of(response: object) -> ErrorCode:
    """The error of a whole answer."""
    return ErrorCode(response.error_code)  # type: ignore[attr-defined]
