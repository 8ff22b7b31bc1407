"""`Membership`: registers a broker, keeps it alive by heartbeats, and takes its leave (cluster.md 2.3 to 2.9).

The decisions are `states.decide`'s; this is their shell: it sends what they ask for, and reports what happened. Always
true: decisions are taken one at a time, in the event loop, and carried out before the next.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, assert_never

from eosin.client.errors import ClientError
from eosin.cluster.membership.channel import ControllerChannel, ControllerUnavailable
from eosin.cluster.membership.rules.ports import BrokerState, MembershipLost
from eosin.cluster.membership.rules.registration import BrokerIdentity, registration_request
from eosin.cluster.membership.rules.states import (
    Begin,
    Closed,
    DirectoriesFailed,
    Effect,
    Enter,
    EpochNotSaved,
    EpochSaved,
    Event,
    FenceWanted,
    HeartbeatAnswered,
    Lose,
    MembershipSettings,
    MemberState,
    NotAnswered,
    Register,
    RegistrationAnswered,
    ReportState,
    SaveEpoch,
    SendHeartbeat,
    StopWanted,
    TimerExpired,
    Wake,
    decide,
)
from eosin.model.features import METADATA_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import Uuid
from eosin.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from eosin.protocol.schemas.broker_registration import BrokerRegistrationResponse
from eosin.runtime.clock import Clock, Timer
from eosin.runtime.logging_format import fields

if TYPE_CHECKING:
    from eosin.cluster.quorum.follower import MetadataFollower

_LOG: Final = logging.getLogger(__name__)

CORDONS_FROM: Final = 30
"""The metadata.version from which heartbeats tell cordoned directories (4.3-IV0)."""
_HEARTBEAT_WITHOUT_CORDONS: Final = 1


class Membership:
    """One broker's membership, from its first registration to its stop."""

    def __init__(
        self,
        identity: BrokerIdentity,
        limits: MembershipSettings,
        *,
        channel: ControllerChannel,
        metadata: "MetadataFollower",
        save_epoch: Callable[[int], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """`channel` is for registration and heartbeats alone, its socket timeout the heartbeat interval. `save_epoch`
        writes a broker epoch to disk, durably, or raises OSError."""
        self._identity = identity
        self._limits = limits
        self._channel = channel
        self._metadata = metadata
        self._save_epoch = save_epoch
        self._clock = clock
        self._member = MemberState()
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._is_silent = False
        """True if the last heartbeat had no response."""
        self._failures_told: frozenset[Uuid] = frozenset()
        """The failed directories that the controller knows."""

    @property
    def broker_epoch(self) -> int:
        """The epoch that the last registration got; -1 before the first."""
        return self._member.broker_epoch

    @property
    def state(self) -> BrokerState:
        """The state of this broker between start and stop."""
        return self._member.state

    @property
    def is_fenced(self) -> bool:
        """True if the controller gives this broker nothing to lead, as far as the last heartbeat knows."""
        return self._member.is_fenced

    async def start(self) -> None:
        """Register, and go on with heartbeats in the background. Returns when this broker is registered. Raises
        MembershipLost when it is refused for good, or not accepted in time."""
        self._happened(Begin())
        await self._until(lambda: self._member.state is not BrokerState.NOT_RUNNING)

    async def caught_up(self) -> None:
        """Wait until the metadata are there up to the registration's own record: RECOVERY begins. Raises
        MembershipLost."""
        await self._until(lambda: self._member.state >= BrokerState.RECOVERY)

    def want_fence(self, want: bool) -> None:
        """Set the wish to be fenced: True until a call with False, when logs, leaders and followers are set up."""
        self._happened(FenceWanted(want))

    async def unfenced(self) -> None:
        """Wait until the controller has unfenced this broker: RUNNING begins. Raises MembershipLost."""
        await self._until(lambda: self._member.state >= BrokerState.RUNNING and not self._member.is_fenced)

    async def fenced(self) -> None:
        """Wait until a heartbeat has heard that this broker is fenced. Raises MembershipLost."""
        await self._until(lambda: self._member.is_fenced)

    async def controlled_shutdown(self) -> None:
        """Ask to stop, and wait until leaderships have moved away or the limit is over; then no heartbeat leaves.
        Returns at once for a broker that is not running."""
        self._happened(StopWanted())
        while not self._member.is_over:
            await self._change()

    def report_failed_directories(self, directories: Iterable[Uuid]) -> None:
        """Tell the controller at once, and in every heartbeat from now on, that these directories have failed."""
        self._happened(DirectoriesFailed(frozenset(directories)))

    async def failures_reported(self, directories: Iterable[Uuid]) -> None:
        """Wait until the controller knows that these directories have failed. Raises MembershipLost."""
        await self._until(lambda: self._failures_told.issuperset(directories))

    async def lost(self) -> str:
        """Wait for the end of the membership that nobody asked for; one sentence says why. The process has to stop
        accepting writes, and exit."""
        return await asyncio.shield(self._lost)

    async def close(self) -> None:
        """Send nothing more."""
        self._happened(Closed())
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close()

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            if self._lost.done():
                raise MembershipLost(self._lost.result())
            if self._member.is_over:
                raise MembershipLost(f"broker {self._identity.node_id} was stopped")
            await self._change()
        if self._lost.done():
            raise MembershipLost(self._lost.result())

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # Decisions and their effects

    def _happened(self, event: Event) -> None:
        self._member, effects = decide(self._member, event, self._clock.elapsed_ms(), self._limits)
        for effect in effects:
            self._carry_out(effect)
        self._changed.set()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Register():
                self._start(self._register(effect.timeout_ms))
            case SendHeartbeat():
                self._start(self._send(effect))
            case Wake():
                self._set_timer(effect.delay_ms)
            case SaveEpoch():
                self._start(self._save(effect.broker_epoch))
            case Enter():
                _LOG.info("the broker is %s", effect.state.name, extra=fields(broker_epoch=self._member.broker_epoch))
            case ReportState():
                _LOG.warning(effect.sentence)
            case Lose():
                _LOG.error(effect.sentence)
                if not self._lost.done():
                    self._lost.set_result(effect.sentence)
            case _:
                assert_never(effect)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _set_timer(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(delay_ms, lambda: self._happened(TimerExpired()))

    # Requests

    async def _register(self, timeout_ms: int) -> None:
        request = registration_request(self._identity)
        try:
            response: BrokerRegistrationResponse = await self._channel.request(
                ApiKey.BROKER_REGISTRATION, request, timeout_ms=timeout_ms
            )
        except (ControllerUnavailable, ClientError) as error:
            self._happened(NotAnswered(str(error)))
            return
        self._happened(RegistrationAnswered(response.error_code, response.broker_epoch, self._channel.features))

    async def _send(self, heartbeat: SendHeartbeat) -> None:
        if self._timer is not None:
            self._timer.cancel()
        tells = heartbeat.tells_cordoned and self._channel.features.get(METADATA_VERSION, 0) >= CORDONS_FROM
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=heartbeat.broker_epoch,
            current_metadata_offset=self._metadata.published_offset,
            want_fence=heartbeat.want_fence,
            want_shut_down=heartbeat.want_shut_down,
            offline_log_dirs=tuple(sorted(heartbeat.offline_directories)),
            cordoned_log_dirs=self._identity.cordoned_log_dirs if tells else None,
        )
        try:
            response: BrokerHeartbeatResponse = await self._channel.request(
                ApiKey.BROKER_HEARTBEAT,
                request,
                timeout_ms=self._limits.heartbeat_interval_ms,
                at_most=None if tells else _HEARTBEAT_WITHOUT_CORDONS,
            )
        except (ControllerUnavailable, ClientError) as error:
            if not self._is_silent:
                _LOG.warning("no controller answers heartbeats: %s", error)
            self._is_silent = True
            self._happened(NotAnswered(str(error)))
            return
        if self._is_silent:
            _LOG.info("a controller answers heartbeats again")
            self._is_silent = False
        if response.error_code == ErrorCode.NONE:
            self._failures_told |= heartbeat.offline_directories
        self._happened(
            HeartbeatAnswered(
                error_code=response.error_code,
                is_caught_up=response.is_caught_up,
                is_fenced=response.is_fenced,
                should_shut_down=response.should_shut_down,
                has_image=request.current_metadata_offset >= 0,
            )
        )

    async def _save(self, broker_epoch: int) -> None:
        try:
            await self._save_epoch(broker_epoch)
        except OSError as error:
            self._happened(EpochNotSaved(error.strerror or str(error)))
        else:
            self._happened(EpochSaved(broker_epoch))
