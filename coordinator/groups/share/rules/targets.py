"""The target of a share group: when the next one is computed, of which partitions, and what of it is new
(share-groups.md 5).

Only partitions whose state is initialized are given to members. As with consumer groups, the target of a large group is
computed beside the decisions, from the group as it was, and comes back in parts (`ShareTargetsComputed`).
"""

from collections.abc import Iterator

from eosin.coordinator.groups.consumer.assignors.assignment import Partitions, SubscribedMember
from eosin.coordinator.groups.consumer.rules.targets import MOST_AT_ONCE, PART, in_pieces, is_due, weight_of
from eosin.coordinator.groups.consumer.rules.topics import Topics, topic_ids
from eosin.coordinator.groups.share.assignors import simple
from eosin.coordinator.groups.share.assignors.simple import Assignable
from eosin.coordinator.groups.share.rules.decision import ShareDecision
from eosin.coordinator.groups.share.rules.events import ShareTargetsComputed
from eosin.coordinator.groups.share.rules.group import ShareGroup
from eosin.coordinator.steps import InSteps, finished
from eosin.protocol.names import TopicIdPartition, Uuid

__all__ = ["MOST_AT_ONCE", "assignable", "compute_target", "computed", "is_assignment_pending", "target_in_steps"]


def assignable(group: ShareGroup, topics: Topics) -> Assignable:
    """The partitions that members may be given: of subscribed topics that exist, and with a state."""
    found: dict[Uuid, tuple[int, ...]] = {}
    for name in group.subscribed_names():
        topic = topics.get(name)
        states = None if topic is None else group.states.initialized.get(topic.topic_id)
        if topic is not None and states is not None:
            some = tuple(sorted(each for each in states.partitions if each < topic.partitions))
            if some:
                found[topic.topic_id] = some
    return found


def is_assignment_pending(group: ShareGroup, topics: Topics) -> bool:
    """True if members are to be given other partitions than the target gives them: some have got their state since. It
    looks at the whole target."""
    given = {place for target in group.targets.values() for place in target}
    for topic_id, some in assignable(group, topics).items():
        if any(TopicIdPartition(topic_id, each) not in given for each in some):
            return True
    return False


def compute_target(decision: ShareDecision) -> None:
    """Bring the target to the group epoch if it is behind and its time has come, or ask for it if that takes long."""
    group = decision.group
    if decision.is_computing or not is_due(
        group, interval_ms=decision.config.assignment_interval_ms, now_ms=decision.now_ms
    ):
        return
    partitions = sum(map(len, assignable(group, decision.topics).values()))
    if len(group.members) * weight_of(group.group_id) + partitions > decision.most_at_once:
        decision.wants_target = True
        return
    for part in finished(target_in_steps(group, decision.topics)):
        computed(decision, part)


def target_in_steps(group: ShareGroup, topics: Topics, *, size: int = PART) -> InSteps[Iterator[ShareTargetsComputed]]:
    """Compute the target of a group, each of its members in it: in steps of at most about a millisecond, and in parts
    whose records are quickly written."""
    topics = {name: topics[name] for name in group.subscribed_names() if name in topics}
    subscriptions: dict[tuple[str, ...], frozenset[Uuid]] = {}
    members: list[SubscribedMember] = []
    for member in group.members.values():
        ids = subscriptions.get(member.topics)
        if ids is None:
            ids = subscriptions[member.topics] = topic_ids(member.topics, topics)
        members.append(SubscribedMember(member.member_id, ids))
        yield
    target = yield from simple.assign_in_steps(members, assignable(group, topics), dict(group.targets.items()))
    pieces = in_pieces(target, weight=weight_of(group.group_id), size=size, count=len)
    return (ShareTargetsComputed(group.epoch, part, is_last) for part, is_last in pieces)


def computed(decision: ShareDecision, event: ShareTargetsComputed) -> None:
    """Keep a part of a target, of the members that are still there. The target counts when its last part is kept. One
    that is not newer than the present one is of no use any more."""
    before = decision.group
    if event.epoch <= before.assignment_epoch:
        return
    changed: dict[str, Partitions] = {
        member_id: target
        for member_id, target in event.targets.items()
        if member_id in before.members and before.targets.get(member_id) != target
    }
    decision.put_targets(changed)
    if event.is_last:
        # A target without partitions is no reason to wait with the one that will have some.
        is_empty = not any(decision.group.targets.values())
        decision.store_target_epoch(0 if is_empty else decision.now_ms, epoch=event.epoch)
