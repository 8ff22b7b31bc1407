"""Static members of streams groups: they leave for a while, come back under another id, and keep their tasks
(streams-groups.md 4.1; KIP-345)."""

from streams_cluster import NOTHING, Cluster, active, owned

from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.assignors.tasks import NO_TASKS, MemberTasks, Task
from eosin.coordinator.groups.streams.rules.events import StreamsTargetsComputed
from eosin.coordinator.groups.streams.rules.group import StreamsGroupState, UserEndpoint
from eosin.coordinator.groups.streams.rules.records import StreamsKind
from eosin.protocol.errors import ErrorCode

AWAY = -2


def of_two() -> Cluster:
    """A dynamic member, and a static one, each with two tasks."""
    cluster = Cluster()
    cluster.join("d")
    cluster.join("s1", process="p", instance_id="one")
    kept = owned(*active(cluster.beat("d", 2, owned(0, 1, 2, 3))))
    cluster.beat("d", 2, kept)
    cluster.beat("s1", 3, NOTHING)
    assert cluster.group.state is StreamsGroupState.STABLE
    return cluster


def test_a_member_that_left_for_a_while_keeps_its_tasks_and_its_successor_has_them_at_the_same_epoch() -> None:
    cluster = of_two()
    epoch, tasks = cluster.group.epoch, set(cluster.group.members["s1"].assigned.active)
    assert (cluster.beat("s1", AWAY, instance_id="one").epoch, cluster.kinds) == (AWAY, [StreamsKind.CURRENT])
    assert cluster.group.state is StreamsGroupState.RECONCILING
    assert {task for task, owner in cluster.group.owners.items() if owner.member_id == "s1"} == tasks
    back = cluster.join("s2", process="p", instance_id="one")
    assert (back.epoch, {Task("0", each) for each in active(back)}) == (epoch, tasks)
    assert cluster.kinds[:3] == [StreamsKind.CURRENT, StreamsKind.TARGET, StreamsKind.MEMBER], "its predecessor is gone"
    assert (list(cluster.group.members), cluster.group.epoch) == (["d", "s2"], epoch)
    assert cluster.group.state is StreamsGroupState.STABLE


def test_a_successor_in_another_process_begins_an_epoch_and_keeps_its_tasks() -> None:
    cluster = of_two()
    tasks = {each.partition for each in cluster.group.members["s1"].assigned.active}
    epoch = cluster.group.epoch
    cluster.beat("s1", AWAY, instance_id="one")
    back = cluster.join("s2", process="another", instance_id="one")
    assert (cluster.group.epoch, back.epoch, active(back)) == (epoch + 1, epoch + 1, tasks)


def test_a_member_at_another_address_begins_no_epoch_if_it_is_static() -> None:
    cluster = of_two()
    epoch = cluster.group.epoch
    cluster.beat("s1", epoch, instance_id="one", client_host="/elsewhere")
    assert cluster.group.epoch == epoch
    cluster.beat("d", epoch, client_host="/elsewhere")
    assert cluster.group.epoch == epoch + 1


def test_names_are_refused_to_others_until_their_members_leave() -> None:
    cluster = of_two()
    epoch = cluster.group.epoch
    assert cluster.join("s2", instance_id="one").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert cluster.beat("s2", epoch, instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID
    assert cluster.beat("s2", AWAY, instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID
    assert cluster.beat("s2", -1, instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID
    assert cluster.beat("s1", epoch, instance_id="two").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.beat("s1", AWAY, instance_id="two").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert cluster.join("s1", process="p", instance_id="one").error is ErrorCode.NONE, "it has lost an answer"


def test_a_full_group_takes_back_a_static_member_under_another_id() -> None:
    cluster = Cluster(StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0, max_size=1))
    cluster.join("s1", instance_id="one")
    assert cluster.join("d").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    cluster.beat("s1", AWAY, instance_id="one")
    assert cluster.join("s2", instance_id="one").error is ErrorCode.NONE
    assert list(cluster.group.members) == ["s2"]


def test_a_member_that_takes_over_a_name_gives_up_what_it_was_before() -> None:
    cluster = of_two()
    tasks = {each.partition for each in cluster.group.members["s1"].assigned.active}
    cluster.beat("s1", AWAY, instance_id="one")
    back = cluster.join("d", instance_id="one", process="p")
    assert list(cluster.group.members) == ["d"]
    assert active(back) == {0, 1, 2, 3}, tasks


def test_others_hear_that_a_successor_answers_at_another_endpoint() -> None:
    cluster = Cluster()
    cluster.join("s1", process="p", instance_id="one", endpoint=UserEndpoint("localhost", 1))
    before = cluster.group.endpoint_epoch
    cluster.beat("s1", AWAY, instance_id="one")
    back = cluster.join("s2", process="p", instance_id="one", endpoint=UserEndpoint("localhost", 2))
    assert back.endpoint_epoch > before
    assert [each.endpoint.port for each in back.endpoints or ()] == [2]
    without = cluster.join("s2", process="p", instance_id="one")
    assert without.endpoints == (), "it answers no more"


def test_a_step_whose_answer_was_lost_is_told_again() -> None:
    cluster = Cluster()
    cluster.join("m")
    cluster.join("n")
    kept = owned(*active(cluster.beat("m", 2, owned(0, 1, 2, 3))))
    cluster.beat("m", 2, kept)
    lost = cluster.beat("n", 3, NOTHING)
    assert active(lost)
    assert active(cluster.beat("n", 3, NOTHING)) == active(lost), "it says that it has nothing"
    assert cluster.beat("n", 3, owned(*active(lost))).tasks is None


def test_a_target_that_was_computed_meanwhile_counts_for_the_successor() -> None:
    cluster = of_two()
    before = cluster.group
    everything = MemberTasks(frozenset(Task("0", each) for each in range(4)))
    cluster.beat("s1", AWAY, instance_id="one")
    cluster.join("s2", process="p", instance_id="one")
    targets = {"s1": everything, "d": NO_TASKS}
    cluster.happens(StreamsTargetsComputed(before.epoch + 1, targets, before.members, is_last=True))
    assert (cluster.group.target("s2"), cluster.group.target("d")) == (everything, NO_TASKS)
