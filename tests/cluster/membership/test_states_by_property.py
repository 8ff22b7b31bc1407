"""Whatever happens to a broker, in whatever order: what is always true of its membership."""

import hypothesis.strategies as st
from hypothesis import given, settings

from eosin.cluster.membership.rules.ports import BrokerState
from eosin.cluster.membership.rules.states import (
    Begin,
    DirectoriesFailed,
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
    SaveEpoch,
    SendHeartbeat,
    StopWanted,
    TimerExpired,
    Wake,
    decide,
)

LIMITS = MembershipSettings(
    node_id=3,
    cluster_id="abcdefghijklmnopqrstuw",
    heartbeat_interval_ms=2000,
    session_timeout_ms=9000,
    registration_timeout_ms=20_000,
    shutdown_timeout_ms=5000,
)
ERRORS = (0, 0, 0, 7, 41, -1)
PASSING = (*ERRORS, 77)
REFUSALS = (*ERRORS, 101, 104, 35)


class World:
    """A broker, the request on its way, its timer and its disk."""

    def __init__(self) -> None:
        self.member = MemberState()
        self.now_ms = 0
        self.asking: str | None = None
        self.due_ms: int | None = None
        self.unsaved: list[int] = []
        self.saved = -1
        self.registered = -1
        self.losses = 0

    @property
    def is_over(self) -> bool:
        return self.member.state is BrokerState.SHUTTING_DOWN

    def possible(self, data: st.DataObject) -> Event:
        """Something that can happen now."""
        events: list[Event] = [
            FenceWanted(data.draw(st.booleans())),
            DirectoriesFailed(frozenset({bytes([data.draw(st.integers(1, 2))]) * 16})),
        ]
        if data.draw(st.integers(0, 9)) == 0:
            events.append(StopWanted())
        if self.asking == "registration":
            error = data.draw(st.sampled_from(REFUSALS))
            is_broken = data.draw(st.integers(0, 9)) == 0
            epoch = -1 if error or is_broken else data.draw(st.integers(max(0, self.registered), 1000))
            answered = RegistrationAnswered(error, epoch, {})
            events += [answered] * 3 + [NotAnswered("silence")]
        if self.asking == "heartbeat":
            answer = HeartbeatAnswered(
                error_code=data.draw(st.sampled_from(PASSING)),
                is_caught_up=data.draw(st.booleans()),
                is_fenced=data.draw(st.booleans()),
                should_shut_down=data.draw(st.booleans()),
                has_image=data.draw(st.booleans()),
            )
            events += [answer] * 3 + [NotAnswered("silence")]
        if self.due_ms is not None:
            events += [TimerExpired()] * 3
        events += [EpochSaved(each) for each in self.unsaved[:1]]
        return data.draw(st.sampled_from(events))

    def happen(self, event: Event, after_ms: int) -> None:
        self.now_ms += after_ms
        if isinstance(event, TimerExpired):
            assert self.due_ms is not None
            self.now_ms, self.due_ms = max(self.now_ms, self.due_ms), None
        if isinstance(event, RegistrationAnswered | HeartbeatAnswered | NotAnswered):
            self.asking = None
        if isinstance(event, RegistrationAnswered) and event.error_code == 0 and event.broker_epoch >= 0:
            self.registered = event.broker_epoch
        if isinstance(event, EpochSaved):
            self.saved = self.unsaved.pop(0)
        was_over = self.is_over
        self.member, effects = decide(self.member, event, self.now_ms, LIMITS)
        for effect in effects:
            assert not was_over, "nothing happens after the end"
            self._carry_out(effect)

    def _carry_out(self, effect: object) -> None:
        match effect:
            case Register(timeout_ms):
                assert self.asking is None, "one request at a time"
                assert 0 < timeout_ms <= LIMITS.registration_timeout_ms
                self.asking = "registration"
            case SendHeartbeat():
                assert self.asking is None, "one request at a time"
                assert effect.broker_epoch == self.registered
                if not (effect.want_fence or effect.want_shut_down):
                    assert effect.broker_epoch == self.saved, "unfenced with an epoch that is not on disk"
                self.asking = "heartbeat"
            case Wake(delay_ms):
                assert 0 <= delay_ms <= LIMITS.heartbeat_interval_ms
                self.due_ms = self.now_ms + delay_ms
            case SaveEpoch(broker_epoch):
                self.unsaved.append(broker_epoch)
            case Lose():
                self.losses += 1

    def check(self) -> None:
        assert self.losses <= 1
        if not self.is_over:
            assert self.asking or self.due_ms is not None, "nothing will ever happen again"
        if self.member.state >= BrokerState.RUNNING and not self.is_over:
            assert self.registered >= 0


@settings(max_examples=100)
@given(data=st.data())
def test_after_any_events_a_broker_goes_on_or_ends(data: st.DataObject) -> None:
    world = World()
    world.happen(Begin(), 0)
    for _ in range(data.draw(st.integers(1, 40))):
        world.happen(world.possible(data), data.draw(st.sampled_from((0, 10, 500, 2500))))
        world.check()
