"""Transcripts of one group: what happens to it stands at the margin, and what it does about that is indented below.

Lines with `#` and blank lines are for the reader. The words of a step:

    join t1 [member=..] [instance=..] [protocols=range:a,b] [session=ms] [rebalance=ms] [v=9]
    sync t1 m1 gen=1 [assign=m1:p0,m2:p1]
    leave t1 m1 ...                       (instance:name removes a static member)
    stored / fails ERROR                  the oldest write that is not settled yet
    fires session m1 / pending m1 / join / sync
    loaded / unloaded / rebalance / deleting / delete-failed

`t1` names the request, which the effects repeat; new member ids are m1, m2, ... in the order in which they are needed.
"""

from collections import deque
from dataclasses import dataclass, field

from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.decide import decide
from eosin.coordinator.groups.rules.effects import (
    Answer,
    CancelTimer,
    Effect,
    GroupReply,
    JoinResult,
    LeaveResult,
    PersistGroup,
    StartTimer,
    SyncResult,
)
from eosin.coordinator.groups.rules.events import (
    Completion,
    DeleteFailed,
    Deleting,
    Event,
    GroupAppended,
    GroupAppendFailed,
    GroupLoaded,
    Join,
    Leave,
    LeavingMember,
    Rebalance,
    Sync,
    TimerFired,
    TimerKind,
    TimerName,
    Unloaded,
)
from eosin.coordinator.groups.rules.group import Group
from eosin.protocol.errors import ErrorCode


@dataclass
class GroupTheatre:
    """Plays steps against `decide`, and tells what it answers in words."""

    config: GroupConfig = field(default_factory=GroupConfig)
    group: Group = field(default_factory=lambda: Group("g"))
    now_ms: int = 0
    ids: int = 0
    request_ids: dict[int, str] = field(default_factory=dict)
    writes: "deque[Completion]" = field(default_factory=deque)
    timers: dict[TimerName, int] = field(default_factory=dict)
    """Running timers and the generation in which each was started."""

    def play(self, step: str) -> list[str]:
        """Carry out one step; one line per effect, and one for the group if it changed."""
        before = self.describe()
        self.now_ms += 1
        self.group, effects = decide(self.group, self._event(step), now_ms=self.now_ms, config=self.config)
        lines = [line for effect in effects if (line := self._tell(effect))]
        after = self.describe()
        return lines if after == before else [*lines, f"group {after}"]

    def describe(self) -> str:
        """The group in one line."""
        group = self.group
        words = [group.state.value, f"generation={group.generation_id}"]
        if group.leader_id is not None:
            words.append(f"leader={group.leader_id}")
        if group.members:
            words.append("members=" + ",".join(group.members))
        if group.pending_members:
            words.append("pending=" + ",".join(group.pending_members))
        return " ".join(words)

    def _event(self, step: str) -> Event:
        verb, *words = step.split()
        match verb:
            case "join":
                return self._join(words)
            case "sync":
                return self._sync(words)
            case "leave":
                return Leave(self._request_id(words[0]), tuple(_leaving(word) for word in words[1:]))
            case "fires":
                timer = TimerName(TimerKind(words[0]), words[1] if len(words) > 1 else "")
                return TimerFired(timer, self.timers.pop(timer, self.group.generation_id))
            case "stored":
                return GroupAppended(self.writes.popleft())
            case "fails":
                return GroupAppendFailed(self.writes.popleft(), ErrorCode[words[0]])
            case _:
                return {
                    "loaded": GroupLoaded(),
                    "unloaded": Unloaded(),
                    "rebalance": Rebalance(),
                    "deleting": Deleting(),
                    "delete-failed": DeleteFailed(),
                }[verb]

    def _join(self, words: list[str]) -> Join:
        options = dict(word.split("=", 1) for word in words[1:])
        member_id = options.get("member", "")
        if not member_id:
            self.ids += 1
        version = int(options.get("v", "9"))
        return Join(
            request_id=self._request_id(words[0]),
            member_id=member_id,
            instance_id=options.get("instance"),
            protocol_type="consumer",
            protocols=tuple(_protocol(word) for word in options.get("protocols", "range").split(",")),
            session_timeout_ms=int(options.get("session", "10000")),
            rebalance_timeout_ms=int(options.get("rebalance", "60000")),
            client_id="c",
            client_host="/127.0.0.1",
            fresh_member_id="" if member_id else f"m{self.ids}",
            needs_known_id=version >= 4,
            can_skip_assignment=version >= 9,
        )

    def _sync(self, words: list[str]) -> Sync:
        options = dict(word.split("=", 1) for word in words[2:])
        assign = options.get("assign", "")
        return Sync(
            request_id=self._request_id(words[0]),
            member_id=words[1],
            instance_id=options.get("instance"),
            generation_id=int(options["gen"]),
            protocol_type=options.get("type"),
            protocol_name=options.get("protocol"),
            assignments=tuple(_assignment(word) for word in assign.split(",") if word),
        )

    def _request_id(self, name: str) -> int:
        request_id = len(self.request_ids) + 1
        self.request_ids[request_id] = name
        return request_id

    def _tell(self, effect: Effect) -> str | None:
        match effect:
            case GroupReply():
                return f"{self.request_ids[effect.request_id]} <- {tell_answer(effect.answer)}"
            case PersistGroup():
                self.writes.append(effect.then)
                return _tell_record(effect.group)
            case StartTimer():
                self.timers[effect.timer] = self.group.generation_id
                return f"timer {_tell_timer(effect.timer)} {effect.delay_ms} ms"
            case CancelTimer():
                running = self.timers.pop(effect.timer, None)
                return None if running is None else f"stop {_tell_timer(effect.timer)}"


def tell_answer(answer: Answer) -> str:
    """An answer in one line."""
    match answer:
        case JoinResult():
            words = [answer.error.name]
            if answer.member_id:
                words.append(f"you={answer.member_id}")
            if answer.error is ErrorCode.NONE:
                words += [f"generation={answer.generation_id}", f"{answer.protocol_name}", f"leader={answer.leader_id}"]
            if answer.members:
                members = (f"{each.member_id}:{each.metadata.decode()}" for each in answer.members)
                words.append("members=" + ",".join(members))
            if answer.skip_assignment:
                words.append("skip-assignment")
            return " ".join(words)
        case SyncResult():
            return answer.error.name if answer.error else f"assignment {answer.assignment.decode() or 'nothing'}"
        case LeaveResult():
            return " ".join((answer.error.name, *(error.name for error in answer.members)))


def _tell_record(group: Group) -> str:
    members = (f"{member.member_id}:{member.assignment.decode() or 'nothing'}" for member in group.members.values())
    return " ".join(["write", group.state.value, f"generation={group.generation_id}", *members])


def _tell_timer(timer: TimerName) -> str:
    return f"{timer.kind.value} {timer.member_id}".rstrip()


def _protocol(word: str) -> tuple[str, bytes]:
    name, _, metadata = word.partition(":")
    return name, metadata.encode()


def _assignment(word: str) -> tuple[str, bytes]:
    member_id, _, assignment = word.partition(":")
    return member_id, assignment.encode()


def _leaving(word: str) -> LeavingMember:
    if word.startswith("instance:"):
        return LeavingMember("", word.removeprefix("instance:"))
    return LeavingMember(word, None)


def replay(text: str) -> str:
    """The transcript with the effects that its steps have now."""
    theatre = GroupTheatre()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("config "):
            theatre.config = GroupConfig(group_initial_rebalance_delay_ms=int(line.split("=")[1]))
            lines.append(line)
        elif not line or line.startswith("#"):
            lines.append(line)
        elif line.startswith("    "):
            continue  # what it expected
        else:
            lines += [line, *(f"    {told}" for told in theatre.play(line))]
    return "\n".join(lines) + "\n"
