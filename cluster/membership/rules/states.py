"""The life of a broker in its cluster as decisions: registration, heartbeats and states (cluster.md 2.3 to 2.8).

Pure: `decide` takes what happened and returns the next state and what must be done, in order; `lifecycle.Membership`
does it. Always true: one request is on its way at a time, and nothing else ever waits in front of it; a heartbeat asks
to be unfenced only after the epoch that it carries is on disk; a broker that has lost its registration to another
process never gets a state back.
"""

from collections.abc import Mapping
from typing import Final, assert_never

import msgspec
from msgspec.structs import replace

from eosin.cluster.membership.rules.ports import BrokerState
from eosin.cluster.membership.rules.registration import lasting_refusal
from eosin.cluster.quorum.rules.feature_levels import ANY_CONTROLLERS
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import Uuid

STARTING_INTERVAL_MS: Final = 10
"""Between two heartbeats while the metadata follower catches up: the broker serves nobody yet."""
FIRST_SHUTDOWN_INTERVAL_MS: Final = 50
"""After the first response to a wish to stop: a broker that leads nothing any more is let go with the second."""
SESSIONS_OF_A_DUPLICATE: Final = 2
"""Another incarnation with a live session is a killed predecessor for one session timeout, and after two somebody
else."""


class MembershipSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and names that do not change."""

    node_id: int
    cluster_id: str
    heartbeat_interval_ms: int
    session_timeout_ms: int
    """The controllers' value, as far as this broker knows."""
    registration_timeout_ms: int
    shutdown_timeout_ms: int
    controllers: str = ANY_CONTROLLERS
    """The addresses at which Kafka's tools reach the controllers, for sentences."""


class MemberState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a broker as a member of its cluster."""

    state: BrokerState = BrokerState.NOT_RUNNING
    broker_epoch: int = -1
    """Of the last registration."""
    saved_epoch: int = -1
    """The epoch that is on disk."""
    registering_since_ms: int | None = None
    """Since when it tries to register; None while it is registered."""
    duplicate_since_ms: int | None = None
    """Since when each try has met another incarnation of this id."""
    complaint: str = "no controller was found"
    """The reason why the last try to register failed."""
    wants_fence: bool = True
    is_fenced: bool = True
    """True if the broker is fenced, as the last heartbeat was told."""
    offline_directories: frozenset[Uuid] = frozenset()
    shutdown_since_ms: int | None = None
    is_shutdown_known: bool = False
    """True if a heartbeat that wishes to stop was answered."""
    is_asking: bool = False
    """True if a request is on its way."""
    is_in_a_hurry: bool = False
    """True if the next heartbeat leaves as soon as the one on its way is answered."""
    asked_to_unfence: bool = False
    """True if the heartbeat on its way does not want to be fenced."""

    @property
    def is_over(self) -> bool:
        """True if no request leaves any more."""
        return self.state is BrokerState.SHUTTING_DOWN


# Events


class Begin(msgspec.Struct, frozen=True):
    """Become a member."""


class TimerExpired(msgspec.Struct, frozen=True):
    """The time that `Wake` has set is over."""


class NotAnswered(msgspec.Struct, frozen=True):
    """The request on its way had no response in time."""

    why: str


class RegistrationAnswered(msgspec.Struct, frozen=True):
    """The response to a registration."""

    error_code: int
    broker_epoch: int
    levels: Mapping[str, int]
    """The finalized features of the cluster, as the controller told them."""


class HeartbeatAnswered(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a heartbeat."""

    error_code: int = ErrorCode.NONE
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
    has_image: bool = False
    """True if the metadata were published by then."""


class EpochSaved(msgspec.Struct, frozen=True):
    """An epoch is on disk."""

    broker_epoch: int


class EpochNotSaved(msgspec.Struct, frozen=True):
    """The disk did not take an epoch."""

    why: str


class FenceWanted(msgspec.Struct, frozen=True):
    """This broker wants to be fenced, or no longer."""

    want: bool


class DirectoriesFailed(msgspec.Struct, frozen=True):
    """Directories of this broker cannot be used any more."""

    directories: frozenset[Uuid]


class StopWanted(msgspec.Struct, frozen=True):
    """This broker is told to stop."""


class Closed(msgspec.Struct, frozen=True):
    """This broker ends now, whatever the controller thinks of it."""


Event = (
    Begin
    | TimerExpired
    | NotAnswered
    | RegistrationAnswered
    | HeartbeatAnswered
    | EpochSaved
    | EpochNotSaved
    | FenceWanted
    | DirectoriesFailed
    | StopWanted
    | Closed
)


# Effects


class Register(msgspec.Struct, frozen=True):
    """Send a registration, and wait for its response up to `timeout_ms`."""

    timeout_ms: int


class SendHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """Send a heartbeat, and wait for its response up to the heartbeat interval."""

    broker_epoch: int
    want_fence: bool
    want_shut_down: bool
    offline_directories: frozenset[Uuid]
    tells_cordoned: bool
    """True if it names the cordoned directories: from RECOVERY on."""


class Wake(msgspec.Struct, frozen=True):
    """Report `TimerExpired` after this time, instead of any earlier `Wake`."""

    delay_ms: int


class SaveEpoch(msgspec.Struct, frozen=True):
    """Write the epoch to disk, then report `EpochSaved`."""

    broker_epoch: int


class Enter(msgspec.Struct, frozen=True):
    """The broker is in this state now."""

    state: BrokerState


class ReportState(msgspec.Struct, frozen=True):
    """Log this."""

    sentence: str


class Lose(msgspec.Struct, frozen=True):
    """The membership is over for good: accept no writes, and exit with the sentence."""

    sentence: str


Effect = Register | SendHeartbeat | Wake | SaveEpoch | Enter | ReportState | Lose
Decision = tuple[MemberState, tuple[Effect, ...]]


def decide(member: MemberState, event: Event, now_ms: int, limits: MembershipSettings) -> Decision:
    """The next state and what must be done, in order. After the end nothing happens any more."""
    if member.is_over:
        return replace(member, is_asking=False), ()
    match event:
        case Begin():
            return _register(replace(member, registering_since_ms=now_ms), now_ms, limits)
        case TimerExpired():
            return _due(member, now_ms, limits)
        case NotAnswered():
            return _no_response(member, event.why, now_ms, limits)
        case RegistrationAnswered():
            return _registered(replace(member, is_asking=False), event, now_ms, limits)
        case HeartbeatAnswered():
            return _heartbeat_accepted(replace(member, is_asking=False), event, now_ms, limits)
        case EpochSaved():
            saved = replace(member, saved_epoch=event.broker_epoch)
            return _hurry(saved) if not saved.wants_fence else (saved, ())
        case EpochNotSaved():
            return _lose(member, f"the broker epoch cannot be written to the data directory: {event.why}")
        case FenceWanted():
            if event.want == member.wants_fence:
                return member, ()
            return _hurry(replace(member, wants_fence=event.want))
        case DirectoriesFailed():
            offline = member.offline_directories | event.directories
            return (
                (member, ())
                if offline == member.offline_directories
                else _hurry(replace(member, offline_directories=offline))
            )
        case StopWanted():
            return _stop(member, now_ms)
        case Closed():
            return _end(member, None)
        case _:
            assert_never(event)


# Registration


def _register(member: MemberState, now_ms: int, limits: MembershipSettings) -> Decision:
    assert member.registering_since_ms is not None
    left_ms = member.registering_since_ms + limits.registration_timeout_ms - now_ms
    if left_ms <= 0:
        return _lose(
            member,
            f"broker {limits.node_id} could not be registered in {limits.registration_timeout_ms} ms"
            f" (initial.broker.registration.timeout.ms): {member.complaint}",
        )
    return replace(member, is_asking=True), (Register(left_ms),)


def _registered(member: MemberState, event: RegistrationAnswered, now_ms: int, limits: MembershipSettings) -> Decision:
    if event.error_code == ErrorCode.NONE and event.broker_epoch >= 0:
        return _accepted(member, event.broker_epoch)
    if event.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
        return _duplicate(member, now_ms, limits)
    sentence = lasting_refusal(
        event.error_code,
        node_id=limits.node_id,
        cluster_id=limits.cluster_id,
        levels=event.levels,
        controllers=limits.controllers,
    )
    if sentence is not None:
        return _lose(member, sentence)
    complaint = f"the controller answered error {event.error_code}"
    if event.error_code == ErrorCode.NONE:
        complaint = f"the controller answered broker epoch {event.broker_epoch}, which no registration has"
    return _try_again(replace(member, complaint=complaint, duplicate_since_ms=None), now_ms, limits)


def _accepted(member: MemberState, broker_epoch: int) -> Decision:
    """Registered, for the first time or again: the first heartbeat shows a live session, and leaves at once."""
    effects: list[Effect] = []
    if member.state is BrokerState.NOT_RUNNING:
        member = replace(member, state=BrokerState.STARTING)
        effects.append(Enter(BrokerState.STARTING))
    member = replace(member, broker_epoch=broker_epoch, registering_since_ms=None, duplicate_since_ms=None)
    if member.saved_epoch != broker_epoch:
        effects.append(SaveEpoch(broker_epoch))
    member, heartbeat = _heartbeat(member)
    return member, (*effects, *heartbeat)


def _duplicate(member: MemberState, now_ms: int, limits: MembershipSettings) -> Decision:
    """101: another incarnation of this id has a live session. At a start it is a killed predecessor, whose session
    ends by itself, or another process; for a broker that was a member it is another process."""
    other = f"another broker runs with node.id {limits.node_id}"
    if member.state is not BrokerState.NOT_RUNNING:
        return _lose(member, f"{other}, and the controller has taken it for this one")
    since_ms = now_ms if member.duplicate_since_ms is None else member.duplicate_since_ms
    if now_ms - since_ms >= SESSIONS_OF_A_DUPLICATE * limits.session_timeout_ms:
        return _lose(member, f"{other}: stop that one, or give this one an id of its own")
    first = member.duplicate_since_ms is None
    member, effects = _try_again(replace(member, duplicate_since_ms=since_ms, complaint=other), now_ms, limits)
    if first:
        report = ReportState(
            f"the controller still counts on an earlier process of broker {limits.node_id}: waiting for the end of its"
            f" session, up to {limits.session_timeout_ms} ms"
        )
        return member, (report, *effects)
    return member, effects


def _try_again(member: MemberState, now_ms: int, limits: MembershipSettings) -> Decision:
    """Register again after a heartbeat interval, or give up at the end of the time for it."""
    assert member.registering_since_ms is not None
    left_ms = member.registering_since_ms + limits.registration_timeout_ms - now_ms
    return member, (Wake(max(0, min(limits.heartbeat_interval_ms, left_ms))),)


# Heartbeats


def _heartbeat(member: MemberState) -> Decision:
    is_stopping = member.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    want_fence = not is_stopping and (member.wants_fence or member.saved_epoch != member.broker_epoch)
    member = replace(member, is_asking=True, is_in_a_hurry=False, asked_to_unfence=not want_fence)
    return member, (
        SendHeartbeat(
            broker_epoch=member.broker_epoch,
            want_fence=want_fence,
            want_shut_down=is_stopping,
            offline_directories=member.offline_directories,
            tells_cordoned=member.state >= BrokerState.RECOVERY,
        ),
    )


def _hurry(member: MemberState) -> Decision:
    """A heartbeat at once, or as soon as the one on its way is answered; none while there is no registration."""
    if member.registering_since_ms is not None or member.state is BrokerState.NOT_RUNNING:
        return member, ()
    if member.is_asking:
        return replace(member, is_in_a_hurry=True), ()
    return _heartbeat(member)


def _due(member: MemberState, now_ms: int, limits: MembershipSettings) -> Decision:
    if member.is_asking:
        return member, ()
    if _has_waited_to_stop(member, now_ms, limits):
        return _end(member, "leaderships have not moved away in time")
    if member.registering_since_ms is not None:
        return _register(member, now_ms, limits)
    return _heartbeat(member)


def _no_response(member: MemberState, why: str, now_ms: int, limits: MembershipSettings) -> Decision:
    member = replace(member, is_asking=False)
    if member.registering_since_ms is not None:
        return _try_again(replace(member, complaint=why, duplicate_since_ms=None), now_ms, limits)
    return _next(member, limits.heartbeat_interval_ms, now_ms, limits)


def _heartbeat_accepted(
    member: MemberState, event: HeartbeatAnswered, now_ms: int, limits: MembershipSettings
) -> Decision:
    if event.error_code == ErrorCode.STALE_BROKER_EPOCH:
        if member.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            return _end(member, "the registration is gone, and with it every leadership")
        member = replace(member, registering_since_ms=now_ms, is_fenced=True, is_in_a_hurry=False)
        member, effects = _register(member, now_ms, limits)
        return member, (
            ReportState("the controller does not know this registration any more: registering again"),
            *effects,
        )
    if event.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return _lose(
            member,
            f"broker {limits.node_id} may not send heartbeats: its principal needs CLUSTER_ACTION on the cluster",
        )
    if event.error_code != ErrorCode.NONE:
        return _next(member, limits.heartbeat_interval_ms, now_ms, limits)
    if member.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
        return _heartbeat_while_stopping(member, event, now_ms, limits)
    member, effects = _fencing(member, event)
    interval_ms = limits.heartbeat_interval_ms
    if member.state is BrokerState.STARTING:
        if event.is_caught_up and event.has_image:
            member = replace(member, state=BrokerState.RECOVERY)
            effects = (*effects, Enter(BrokerState.RECOVERY))
        else:
            interval_ms = min(STARTING_INTERVAL_MS, interval_ms)
    member, sent = _next(member, interval_ms, now_ms, limits)
    return member, (*effects, *sent)


def _fencing(member: MemberState, event: HeartbeatAnswered) -> Decision:
    """Apply what a response says about being fenced. Only one to a heartbeat that asked to be unfenced unfences."""
    is_fenced = event.is_fenced or not member.asked_to_unfence
    was_fenced, member = member.is_fenced, replace(member, is_fenced=is_fenced)
    if member.state is BrokerState.RECOVERY and not is_fenced:
        return replace(member, state=BrokerState.RUNNING), (Enter(BrokerState.RUNNING),)
    if member.state is BrokerState.RUNNING and is_fenced and not was_fenced and member.asked_to_unfence:
        return member, (ReportState("the controller has fenced this broker; heartbeats go on, and unfence it"),)
    if member.state is BrokerState.RUNNING and was_fenced and not is_fenced:
        return member, (ReportState("this broker is unfenced again"),)
    return member, ()


def _next(member: MemberState, interval_ms: int, now_ms: int, limits: MembershipSettings) -> Decision:
    """The heartbeat after this one: at once when something has changed meanwhile."""
    if member.is_in_a_hurry:
        return _heartbeat(member)
    if member.shutdown_since_ms is not None:
        if _has_waited_to_stop(member, now_ms, limits):
            return _end(member, "leaderships have not moved away in time")
        interval_ms = min(interval_ms, member.shutdown_since_ms + limits.shutdown_timeout_ms - now_ms)
    return member, (Wake(interval_ms),)


# The end


def _stop(member: MemberState, now_ms: int) -> Decision:
    if member.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
        return member, ()
    if member.state is not BrokerState.RUNNING or member.registering_since_ms is not None:
        return _end(member, None)
    member = replace(member, state=BrokerState.PENDING_CONTROLLED_SHUTDOWN, shutdown_since_ms=now_ms)
    member, effects = _hurry(member)
    return member, (Enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN), *effects)


def _heartbeat_while_stopping(
    member: MemberState, event: HeartbeatAnswered, now_ms: int, limits: MembershipSettings
) -> Decision:
    if event.should_shut_down:
        return _end(member, None)
    # The response to a heartbeat from before the wish to stop says nothing about it: the wish follows it at once.
    if member.is_in_a_hurry:
        return _heartbeat(member)
    first, member = not member.is_shutdown_known, replace(member, is_shutdown_known=True)
    interval_ms = FIRST_SHUTDOWN_INTERVAL_MS if first else limits.heartbeat_interval_ms
    return _next(member, min(interval_ms, limits.heartbeat_interval_ms), now_ms, limits)


def _has_waited_to_stop(member: MemberState, now_ms: int, limits: MembershipSettings) -> bool:
    return member.shutdown_since_ms is not None and now_ms - member.shutdown_since_ms >= limits.shutdown_timeout_ms


def _end(member: MemberState, why: str | None) -> Decision:
    member = replace(member, state=BrokerState.SHUTTING_DOWN, is_in_a_hurry=False)
    report = () if why is None else (ReportState(f"stopping without a controlled shutdown: {why}"),)
    return member, (*report, Enter(BrokerState.SHUTTING_DOWN))


def _lose(member: MemberState, sentence: str) -> Decision:
    member = replace(member, state=BrokerState.SHUTTING_DOWN, is_in_a_hurry=False)
    return member, (Lose(sentence), Enter(BrokerState.SHUTTING_DOWN))
