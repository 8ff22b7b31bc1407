"""The life of a broker in its cluster, decision by decision (cluster.md 2.3 to 2.8)."""

from collections.abc import Mapping

import pytest

from eosin.cluster.membership.rules.ports import BrokerState
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
from eosin.protocol.errors import ErrorCode

LIMITS = MembershipSettings(
    node_id=3,
    cluster_id="abcdefghijklmnopqrstuw",
    heartbeat_interval_ms=2000,
    session_timeout_ms=9000,
    registration_timeout_ms=60_000,
    shutdown_timeout_ms=30_000,
)
EPOCH = 40
DISK = bytes(15) + b"\xaa"


class Broker:
    """A machine at some time: what happens to it, and what it then does."""

    def __init__(self) -> None:
        self.member = MemberState()
        self.now_ms = 0
        self.said: list[str] = []
        self.lost: str | None = None

    def on(self, event: Event, *, after_ms: int = 0) -> tuple[Effect, ...]:
        """What is done, without log lines and the end, which are kept."""
        self.now_ms += after_ms
        self.member, effects = decide(self.member, event, self.now_ms, LIMITS)
        for effect in effects:
            if isinstance(effect, ReportState):
                self.said.append(effect.sentence)
            if isinstance(effect, Lose):
                self.lost = effect.sentence
        return tuple(effect for effect in effects if not isinstance(effect, ReportState | Lose))

    @property
    def state(self) -> BrokerState:
        return self.member.state

    def refused(self, error: ErrorCode, *, levels: Mapping[str, int] | None = None, after_ms: int = 0) -> object:
        return self.on(RegistrationAnswered(error, -1, levels or {}), after_ms=after_ms)

    def starting(self) -> "Broker":
        self.on(Begin())
        self.on(RegistrationAnswered(ErrorCode.NONE, EPOCH, {}))
        self.on(EpochSaved(EPOCH))
        return self

    def recovering(self) -> "Broker":
        self.starting().on(heard(is_caught_up=True))
        return self

    def running(self) -> "Broker":
        self.recovering().on(FenceWanted(False))
        self.on(heard(is_caught_up=True, is_fenced=False))
        assert self.state is BrokerState.RUNNING
        return self


def heard(*, is_caught_up: bool = True, is_fenced: bool = True, has_image: bool = True) -> HeartbeatAnswered:
    return HeartbeatAnswered(is_caught_up=is_caught_up, is_fenced=is_fenced, has_image=has_image)


def failed(error: ErrorCode) -> HeartbeatAnswered:
    return HeartbeatAnswered(error_code=error)


def beat(
    *,
    epoch: int = EPOCH,
    want_fence: bool = False,
    want_shut_down: bool = False,
    offline: frozenset[bytes] = frozenset(),
    tells_cordoned: bool = True,
) -> SendHeartbeat:
    return SendHeartbeat(
        broker_epoch=epoch,
        want_fence=want_fence,
        want_shut_down=want_shut_down,
        offline_directories=offline,
        tells_cordoned=tells_cordoned,
    )


# Registration


def test_a_registered_broker_sends_its_first_heartbeat_at_once() -> None:
    broker = Broker()
    assert broker.on(Begin()) == (Register(60_000),)
    assert broker.on(RegistrationAnswered(ErrorCode.NONE, EPOCH, {})) == (
        Enter(BrokerState.STARTING),
        SaveEpoch(EPOCH),
        beat(want_fence=True, tells_cordoned=False),
    )


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_a_passing_error_is_tried_again_after_the_interval(error: ErrorCode) -> None:
    broker = Broker()
    broker.on(Begin())
    assert broker.refused(error, after_ms=500) == (Wake(2000),)
    assert broker.on(TimerExpired(), after_ms=2000) == (Register(57_500),)


def test_a_registration_without_an_epoch_is_none() -> None:
    """A broken controller says that all is well and gives no epoch: with -1 the broker would ask to be unfenced, since
    a broker that never registered has -1 on disk."""
    broker = Broker()
    broker.on(Begin())
    broker.on(FenceWanted(False))
    assert broker.on(RegistrationAnswered(ErrorCode.NONE, -1, {}), after_ms=59_000) == (Wake(1000),)
    assert broker.on(TimerExpired(), after_ms=1000) == (Enter(BrokerState.SHUTTING_DOWN),)
    assert broker.lost is not None
    assert broker.lost.endswith(": the controller answered broker epoch -1, which no registration has")


def test_a_silent_controller_is_tried_again_until_the_time_is_over() -> None:
    broker = Broker()
    broker.on(Begin())
    assert broker.on(NotAnswered("nobody is there"), after_ms=59_000) == (Wake(1000),)
    assert broker.on(TimerExpired(), after_ms=1000) == (Enter(BrokerState.SHUTTING_DOWN),)
    assert broker.lost == (
        "broker 3 could not be registered in 60000 ms (initial.broker.registration.timeout.ms): nobody is there"
    )


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    ],
)
def test_a_lasting_refusal_ends_the_start_at_once(error: ErrorCode) -> None:
    broker = Broker()
    broker.on(Begin())
    assert broker.refused(error, levels={"share.version": 3}) == (Enter(BrokerState.SHUTTING_DOWN),)
    assert broker.lost is not None
    assert ("share.version" in broker.lost) == (error is ErrorCode.UNSUPPORTED_VERSION)


def test_the_session_of_a_killed_predecessor_is_waited_for() -> None:
    broker = Broker()
    broker.on(Begin())
    for _ in range(5):
        assert broker.refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION) == (Wake(2000),)
        assert broker.on(TimerExpired(), after_ms=2000)
    assert len(broker.said) == 1
    assert "waiting for the end of its session, up to 9000 ms" in broker.said[0]
    broker.on(RegistrationAnswered(ErrorCode.NONE, EPOCH, {}))
    assert broker.state is BrokerState.STARTING
    assert broker.lost is None


def test_another_broker_with_the_id_ends_the_start_after_two_sessions() -> None:
    broker = Broker()
    broker.on(Begin())
    broker.refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    broker.refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, after_ms=17_999)
    assert broker.lost is None
    broker.refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, after_ms=1)
    assert broker.lost == "another broker runs with node.id 3: stop that one, or give this one an id of its own"


# Starting and being unfenced


def test_heartbeats_hurry_until_the_metadata_are_there() -> None:
    broker = Broker().starting()
    assert broker.on(heard(is_caught_up=False)) == (Wake(10),)
    assert broker.on(TimerExpired(), after_ms=10) == (beat(want_fence=True, tells_cordoned=False),)
    assert broker.on(heard(is_caught_up=True, has_image=False)) == (Wake(10),)
    broker.on(TimerExpired(), after_ms=10)
    assert broker.on(heard()) == (Enter(BrokerState.RECOVERY), Wake(2000))


def test_a_broker_is_fenced_until_it_says_that_it_is_ready() -> None:
    broker = Broker().recovering()
    assert broker.on(TimerExpired(), after_ms=2000) == (beat(want_fence=True),)
    broker.on(heard())
    assert broker.on(FenceWanted(False)) == (beat(),)
    assert broker.on(heard(is_fenced=True)) == (Wake(2000),), "the controller has not done it yet"
    broker.on(TimerExpired(), after_ms=2000)
    assert broker.on(heard(is_fenced=False)) == (Enter(BrokerState.RUNNING), Wake(2000))


def test_a_broker_that_gets_ready_during_a_heartbeat_says_so_right_behind_it() -> None:
    broker = Broker().recovering()
    broker.on(TimerExpired(), after_ms=2000)
    assert broker.on(FenceWanted(False)) == ()
    assert broker.on(heard(is_fenced=True)) == (beat(),)


def test_no_heartbeat_asks_to_be_unfenced_before_its_epoch_is_on_disk() -> None:
    broker = Broker()
    broker.on(Begin())
    broker.on(RegistrationAnswered(ErrorCode.NONE, EPOCH, {}))
    broker.on(heard())
    assert broker.on(FenceWanted(False)) == (beat(want_fence=True),)
    broker.on(heard())
    assert broker.on(EpochSaved(EPOCH)) == (beat(),)


def test_a_disk_that_does_not_take_the_epoch_ends_the_membership() -> None:
    broker = Broker().starting()
    broker.on(EpochNotSaved("No space left on device"))
    assert broker.lost == "the broker epoch cannot be written to the data directory: No space left on device"


def test_a_response_to_an_older_heartbeat_unfences_nobody() -> None:
    broker = Broker().recovering()
    broker.on(TimerExpired(), after_ms=2000)
    broker.on(FenceWanted(False))
    assert broker.on(heard(is_fenced=False)) == (beat(),)
    assert broker.state is BrokerState.RECOVERY


# Running


@pytest.mark.parametrize(
    "event", [heard(is_fenced=False), failed(ErrorCode.REQUEST_TIMED_OUT), failed(ErrorCode.NOT_CONTROLLER)]
)
def test_heartbeats_keep_their_interval_after_success_and_failure_alike(event: Event) -> None:
    broker = Broker().running()
    for _ in range(3):
        assert broker.on(TimerExpired(), after_ms=2000) == (beat(),)
        assert broker.on(event) == (Wake(2000),)
    assert broker.on(TimerExpired()) == (beat(),)
    assert broker.on(NotAnswered("silence")) == (Wake(2000),)


def test_one_heartbeat_is_on_its_way_at_a_time() -> None:
    broker = Broker().running()
    assert broker.on(TimerExpired(), after_ms=2000) == (beat(),)
    assert broker.on(TimerExpired(), after_ms=2000) == ()


def test_a_broker_that_was_fenced_goes_on_and_tells_when_it_is_unfenced() -> None:
    broker = Broker().running()
    broker.on(TimerExpired(), after_ms=2000)
    assert broker.on(heard(is_fenced=True)) == (Wake(2000),)
    assert broker.state is BrokerState.RUNNING
    assert broker.member.is_fenced
    broker.on(TimerExpired(), after_ms=2000)
    broker.on(heard(is_fenced=False))
    assert broker.said == [
        "the controller has fenced this broker; heartbeats go on, and unfence it",
        "this broker is unfenced again",
    ]


def test_a_running_broker_can_ask_to_be_fenced_for_a_while() -> None:
    broker = Broker().running()
    assert broker.on(FenceWanted(True)) == (beat(want_fence=True),)
    broker.on(heard(is_fenced=True))
    assert broker.on(FenceWanted(True)) == ()
    assert broker.on(FenceWanted(False)) == (beat(),)


def test_a_failed_directory_is_told_at_once_and_from_then_on() -> None:
    broker = Broker().running()
    offline = frozenset({DISK})
    assert broker.on(DirectoriesFailed(offline)) == (beat(offline=offline),)
    assert broker.on(DirectoriesFailed(offline)) == ()
    broker.on(heard(is_fenced=False))
    assert broker.on(TimerExpired(), after_ms=2000) == (beat(offline=offline),)


def test_a_lost_registration_is_made_again_with_the_same_incarnation() -> None:
    broker = Broker().running()
    broker.on(TimerExpired(), after_ms=2000)
    assert broker.on(failed(ErrorCode.STALE_BROKER_EPOCH)) == (Register(60_000),)
    assert broker.on(FenceWanted(True)) == (), "there is no registration to send a heartbeat for"
    broker.on(FenceWanted(False))
    assert broker.on(RegistrationAnswered(ErrorCode.NONE, EPOCH + 7, {})) == (
        SaveEpoch(EPOCH + 7),
        beat(epoch=EPOCH + 7, want_fence=True),
    )
    broker.on(EpochSaved(EPOCH + 7))
    assert broker.on(heard()) == (beat(epoch=EPOCH + 7),)
    assert broker.state is BrokerState.RUNNING


def test_an_amended_registration_needs_no_new_epoch_on_disk() -> None:
    broker = Broker().running()
    broker.on(TimerExpired(), after_ms=2000)
    broker.on(failed(ErrorCode.STALE_BROKER_EPOCH))
    assert broker.on(RegistrationAnswered(ErrorCode.NONE, EPOCH, {})) == (beat(),)


def test_a_broker_whose_id_another_process_took_ends() -> None:
    broker = Broker().running()
    broker.on(TimerExpired(), after_ms=2000)
    broker.on(failed(ErrorCode.STALE_BROKER_EPOCH))
    broker.refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    assert broker.lost == "another broker runs with node.id 3, and the controller has taken it for this one"


def test_a_broker_that_may_not_send_heartbeats_ends() -> None:
    broker = Broker().running()
    broker.on(TimerExpired(), after_ms=2000)
    broker.on(failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert broker.lost == "broker 3 may not send heartbeats: its principal needs CLUSTER_ACTION on the cluster"


# The end


def test_a_running_broker_stops_when_its_leaderships_have_moved_away() -> None:
    broker = Broker().running()
    assert broker.on(StopWanted()) == (Enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN), beat(want_shut_down=True))
    assert broker.on(heard(is_fenced=False)) == (Wake(50),)
    assert broker.on(TimerExpired(), after_ms=50) == (beat(want_shut_down=True),)
    assert broker.on(heard(is_fenced=False)) == (Wake(2000),)
    broker.on(TimerExpired(), after_ms=2000)
    assert broker.on(HeartbeatAnswered(should_shut_down=True)) == (Enter(BrokerState.SHUTTING_DOWN),)
    assert broker.on(TimerExpired(), after_ms=2000) == ()
    assert broker.lost is None


def test_the_wish_to_stop_follows_a_heartbeat_on_its_way() -> None:
    broker = Broker().running()
    broker.on(TimerExpired(), after_ms=2000)
    assert broker.on(StopWanted()) == (Enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN),)
    assert broker.on(heard(is_fenced=False)) == (beat(want_shut_down=True),)
    assert broker.on(heard(is_fenced=False)) == (Wake(50),)


def test_leaderships_that_stay_hold_a_broker_up_for_a_limited_time() -> None:
    broker = Broker().running()
    broker.on(StopWanted())
    broker.on(heard(is_fenced=False), after_ms=29_000)
    broker.on(TimerExpired(), after_ms=50)
    assert broker.on(heard(is_fenced=False)) == (Wake(950),)
    assert broker.on(TimerExpired(), after_ms=950) == (Enter(BrokerState.SHUTTING_DOWN),)
    assert broker.said == ["stopping without a controlled shutdown: leaderships have not moved away in time"]


def test_a_silent_controller_holds_a_broker_up_for_a_limited_time() -> None:
    broker = Broker().running()
    broker.on(StopWanted())
    broker.on(NotAnswered("silence"), after_ms=2000)
    assert broker.on(TimerExpired(), after_ms=27_000) == (beat(want_shut_down=True),)
    assert broker.on(NotAnswered("silence"), after_ms=2000) == (Enter(BrokerState.SHUTTING_DOWN),)


def test_a_broker_without_a_registration_has_nothing_to_hand_over() -> None:
    broker = Broker().running()
    broker.on(StopWanted())
    assert broker.on(failed(ErrorCode.STALE_BROKER_EPOCH)) == (Enter(BrokerState.SHUTTING_DOWN),)


@pytest.mark.parametrize("before", ["NOT_RUNNING", "STARTING", "RECOVERY"])
def test_a_broker_that_does_not_run_yet_leaves_at_once(before: str) -> None:
    broker = Broker()
    if before == "NOT_RUNNING":
        broker.on(Begin())
    else:
        broker = broker.starting() if before == "STARTING" else broker.recovering()
    assert broker.state is BrokerState[before]
    assert broker.on(StopWanted()) == (Enter(BrokerState.SHUTTING_DOWN),)


def test_nothing_happens_after_the_end() -> None:
    broker = Broker().running()
    broker.on(TimerExpired(), after_ms=2000)
    assert broker.on(Closed()) == (Enter(BrokerState.SHUTTING_DOWN),)
    events: tuple[Event, ...] = (heard(), TimerExpired(), FenceWanted(True), StopWanted(), NotAnswered("x"), Closed())
    for event in events:
        assert broker.on(event) == ()
    assert not broker.member.is_asking
