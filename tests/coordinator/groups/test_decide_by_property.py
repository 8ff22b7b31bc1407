"""Whatever happens to a group: every request is answered exactly once, and nobody waits for ever."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.decide import decide
from eosin.coordinator.groups.rules.effects import CancelTimer, GroupReply, JoinResult, PersistGroup, StartTimer
from eosin.coordinator.groups.rules.events import (
    Completion,
    Event,
    GroupAppended,
    GroupAppendFailed,
    Join,
    Leave,
    LeavingMember,
    Sync,
    TimerFired,
    TimerKind,
    TimerName,
)
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.protocol.errors import ErrorCode

CONFIG = GroupConfig(group_max_size=4, eosin_group_max_pending_members=2, group_initial_rebalance_delay_ms=0)
DELAYED = GroupConfig(group_max_size=4, eosin_group_max_pending_members=2, group_initial_rebalance_delay_ms=100)
INSTANCES = (None, None, "a", "b")
PROTOCOLS = ((("range", b"1"), ("rr", b"")), (("rr", b"2"), ("range", b"")), (("rr", b"3"),))


@dataclass
class Stage:
    """A group, its clock, its timers, and who waits."""

    config: GroupConfig
    group: Group = field(default_factory=lambda: Group("g"))
    now_ms: int = 0
    made: int = 0
    ids: list[tuple[str, str | None]] = field(default_factory=lambda: [("", None)])
    waiting: set[int] = field(default_factory=set)
    timers: dict[TimerName, tuple[int, int, int]] = field(default_factory=dict)
    writes: list[Completion] = field(default_factory=list)

    def happen(self, event: Event) -> None:
        self.group, effects = decide(self.group, event, now_ms=self.now_ms, config=self.config)
        for effect in effects:
            match effect:
                case GroupReply():
                    self.waiting.remove(effect.request_id)  # KeyError: answered twice
                    if isinstance(effect.answer, JoinResult) and effect.answer.member_id:
                        self.ids.append((effect.answer.member_id, None))
                case PersistGroup():
                    self.writes.append(effect.then)
                case StartTimer():
                    self.made += 1
                    self.timers[effect.timer] = (self.now_ms + effect.delay_ms, self.made, self.group.generation_id)
                case CancelTimer():
                    self.timers.pop(effect.timer, None)
        self.check()

    def new_request(self) -> int:
        self.made += 1
        self.waiting.add(self.made)
        return self.made

    def check(self) -> None:
        """What is always true."""
        group = self.group
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert group.leader_id in group.members
            assert all((group.protocol_name in member.protocol_names) for member in group.members.values())
        if group.state is GroupState.EMPTY:
            assert not group.members
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert not group.storing
            assert all(member.syncing is None for member in group.members.values())
        assert group.unsynced <= group.members.keys()
        instances = [member.instance_id for member in group.members.values() if member.instance_id]
        assert len(instances) == len(set(instances))
        assert len(group.pending_members) <= self.config.eosin_group_max_pending_members
        held = {member.joining for member in group.members.values()} | {m.syncing for m in group.members.values()}
        assert self.waiting == held - {None}

    def fire_next(self) -> None:
        timer = min(self.timers, key=lambda name: self.timers[name][:2])
        due, _, generation_id = self.timers.pop(timer)
        self.now_ms = max(self.now_ms, due)
        self.happen(TimerFired(timer, generation_id))


def act(stage: Stage, data: st.DataObject) -> None:
    """One random event."""
    kind = data.draw(st.sampled_from(["join", "join", "sync", "sync", "leave", "timer", "stored", "failed", "stale"]))
    member_id, _ = data.draw(st.sampled_from(stage.ids[-6:]))
    instance_id = data.draw(st.sampled_from(INSTANCES))
    generation_id = stage.group.generation_id - data.draw(st.sampled_from([0, 0, 0, 1]))
    match kind:
        case "join":
            stage.made += 1
            stage.happen(
                Join(
                    request_id=stage.new_request(),
                    member_id=data.draw(st.sampled_from(["", member_id])),
                    instance_id=instance_id,
                    protocol_type="consumer",
                    protocols=data.draw(st.sampled_from(PROTOCOLS)),
                    session_timeout_ms=data.draw(st.sampled_from([50, 500])),
                    rebalance_timeout_ms=data.draw(st.sampled_from([0, 200])),
                    client_id="c",
                    client_host="/h",
                    fresh_member_id=f"m{stage.made}",
                    needs_known_id=data.draw(st.booleans()),
                    can_skip_assignment=data.draw(st.booleans()),
                )
            )
        case "sync":
            leads = data.draw(st.booleans())
            who = (stage.group.leader_id or "") if leads else member_id
            holder = stage.group.members.get(who)
            stage.happen(
                Sync(
                    stage.new_request(),
                    who,
                    holder.instance_id if holder else None,
                    generation_id,
                    None,
                    None,
                    ((who, b"x"),),
                )
            )
        case "leave":
            stage.happen(Leave(stage.new_request(), (LeavingMember(member_id, None), LeavingMember("", instance_id))))
        case "timer" if stage.timers:
            stage.fire_next()
        case "stored" if stage.writes:
            stage.happen(GroupAppended(stage.writes.pop(0)))
        case "failed" if stage.writes:
            stage.happen(GroupAppendFailed(stage.writes.pop(0), ErrorCode.KAFKA_STORAGE_ERROR))
        case "stale" if stage.timers:
            timer = data.draw(st.sampled_from(list(stage.timers)))
            if timer.kind is not TimerKind.PENDING:
                before = stage.group
                stage.happen(TimerFired(timer, stage.group.generation_id - 1))
                assert stage.group == before


@settings(max_examples=150, deadline=None)
@given(config=st.sampled_from([CONFIG, DELAYED]), count=st.integers(1, 40), data=st.data())
def test_every_request_is_answered_once_and_nobody_waits_for_ever(
    config: GroupConfig, count: int, data: st.DataObject
) -> None:
    stage = Stage(config)
    for _ in range(count):
        act(stage, data)
    for _ in range(500):  # everybody falls silent: writes end, timers run out
        if stage.writes:
            stage.happen(GroupAppended(stage.writes.pop(0)))
        elif stage.timers:
            stage.fire_next()
        else:
            break
    assert not stage.waiting
    assert not stage.timers
    assert stage.group.state is GroupState.EMPTY
    assert not stage.group.pending_members
