"""Bugs to plant in the code of any kind of group, so that the search can be checked: each is what a careless change
might do. Beside each stand the rules one of which it breaks, and bounds in which that shows."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar
from unittest.mock import patch

from msgspec.structs import replace

from model_checker.membership.rules import EPOCHS, REPLAYED
from model_checker.membership.values import Bounds, Kind

STATIC: Final = (Kind.DYNAMIC, Kind.STATIC)
B = TypeVar("B", bound=Bounds, covariant=True)
Plant = Callable[[], AbstractContextManager[Any]]


class Planted(NamedTuple, Generic[B]):
    """A bug, and where it shows."""

    plant: Plant
    rules: tuple[str, ...]
    bounds: B


class Within(Protocol[B]):
    """Makes bounds: what they are about, the kinds of the members (two dynamic ones), and what may happen."""

    def __call__(self, about: str, *kinds: Kind, **bounds: Any) -> B: ...


class Code(NamedTuple):
    """The code of one kind of group."""

    decide: ModuleType
    heartbeat: ModuleType
    targets: ModuleType
    decision: type[Any]
    nothing: object
    """What a member says that has nothing."""
    unreleased: object
    """The state of a member that waits for what others have."""
    target: object
    """The kind of the record of a member's target."""

    def others_have_nothing(self) -> AbstractContextManager[Any]:
        """A member gets its target at once, whoever still has it."""
        return self.reconciled_with(owners={})

    def reconciled_with(self, **careless: Any) -> AbstractContextManager[Any]:
        """A member gets what it gets as if these arguments were so."""
        sound = self.heartbeat.reconciled
        return patch.object(self.heartbeat, "reconciled", lambda member, **rest: sound(member, **{**rest, **careless}))

    def silence_is_revocation(self) -> AbstractContextManager[Any]:
        """A member that does not say what it has is taken to have nothing."""
        sound = self.heartbeat.reconciled

        def careless(member: Any, *, owned: Any, **rest: Any) -> Any:
            return sound(member, owned=owned or self.nothing, **rest)

        return patch.object(self.heartbeat, "reconciled", careless)

    def a_leave_begins_no_epoch(self) -> AbstractContextManager[Any]:
        """What a member had that is gone is given to nobody."""
        sound = self.decision.bump

        def careless(decided: Any) -> None:
            if len(decided.group.members) >= len(decided.before.members):
                sound(decided)

        return patch.object(self.decision, "bump", careless)

    def epoch_used_twice(self) -> AbstractContextManager[Any]:
        """The next epoch is counted from the target, which may be behind."""

        def careless(decided: Any) -> None:
            decided.store_group(decided.group.assignment_epoch + 1)

        return patch.object(self.decision, "bump", careless)

    def waiting_members_are_not_written(self) -> AbstractContextManager[Any]:
        """What a member has that waits for more is known to the memory alone."""
        sound = self.decision.put_current

        def careless(decided: Any, member: Any) -> None:
            sound(decided, member)
            if member.state is self.unreleased:
                decided.records.pop()

        return patch.object(self.decision, "put_current", careless)

    def targets_outlive_members(self) -> AbstractContextManager[Any]:
        """The target of a member that is gone stays in the log."""
        sound = self.decision.drop_member

        def careless(decided: Any, member_id: str) -> None:
            sound(decided, member_id)
            decided.records = [each for each in decided.records if (each.kind, each.value) != (self.target, None)]

        return patch.object(self.decision, "drop_member", careless)

    def predecessors_stay(self) -> AbstractContextManager[Any]:
        """A static member is back, and the one that it was is still there."""
        sound = self.heartbeat.replace_static

        def careless(*arguments: Any) -> Any:
            with patch.object(self.decision, "drop_member", lambda *_: None):
                return sound(*arguments)

        return patch.object(self.heartbeat, "replace_static", careless)

    def topics_are_looked_at_once(self) -> AbstractContextManager[Any]:
        """A group keeps to the topics that it has begun with."""
        sound = self.decide._decided

        def careless(decided: Any, event: Any, *, topics_changed: bool) -> Any:
            return sound(decided, event, topics_changed=False)

        return patch.object(self.decide, "_decided", careless)

    def a_step_is_told_once(self) -> AbstractContextManager[Any]:
        """A member that has missed a step which kept its epoch is not told again, as in Apache Kafka."""
        return patch.object(self.heartbeat, "_may_have_missed_a_step", lambda *_: False)

    def the_first_part_counts(self) -> AbstractContextManager[Any]:
        """A target in parts is taken for whole with its first part."""
        sound = self.targets.computed

        def careless(decided: Any, event: Any) -> None:
            sound(decided, replace(event, is_last=True))

        return patch.object(self.targets, "computed", careless)


def planted(
    code: Code,
    *,
    within: Within[B],
    owner_lost: Plant,
    commits: Plant,
    one_owner: str,
    own: str,
    one_committer: str,
    rest: str,
) -> dict[str, Planted[B]]:
    """The bugs that every kind of group can have, two of which it plants its own way, and its own rules against them:
    one owner, a member's own, one committer, and rest in the end."""
    return {
        "owner-lost": Planted(owner_lost, (one_owner,), within("a leave", leaves=1)),
        "silence-is-revocation": Planted(code.silence_is_revocation, (own,), within("no fault")),
        "any-older-epoch-commits": Planted(commits, (one_committer,), within("a late copy", copies=1, fair_every=1000)),
        "a-leave-begins-no-epoch": Planted(code.a_leave_begins_no_epoch, (rest,), within("a leave", leaves=1)),
        "epoch-used-twice": Planted(
            code.epoch_used_twice, (EPOCHS, rest), within("a target in parts", in_parts=True, leaves=1)
        ),
        "waiting-members-are-not-written": Planted(
            code.waiting_members_are_not_written, (REPLAYED,), within("no fault")
        ),
        "targets-outlive-members": Planted(code.targets_outlive_members, (REPLAYED,), within("a leave", leaves=1)),
        "predecessors-stay": Planted(
            code.predecessors_stay, (one_owner, REPLAYED), within("a static member", *STATIC, leaves=1)
        ),
        "topics-are-looked-at-once": Planted(
            code.topics_are_looked_at_once, (rest,), within("a topic grows", changes=1)
        ),
        "a-step-is-told-once": Planted(code.a_step_is_told_once, (rest,), within("a late copy", copies=1)),
        "the-first-part-counts": Planted(code.the_first_part_counts, (rest,), within("in parts", in_parts=True)),
    }
