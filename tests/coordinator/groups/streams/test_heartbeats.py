"""StreamsGroupHeartbeat: joins, tasks, statuses and refusals, and any order of events (streams-groups.md)."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from streams_cluster import COUNTING, NOTHING, TOPOLOGY, Cluster, active, owned, topics

from eosin.coordinator.groups.consumer.rules.events import ConsumerTimer, ConsumerTimerKind, MemberTimerFired
from eosin.coordinator.groups.rules.config import StreamsGroupConfig
from eosin.coordinator.groups.streams.assignors.tasks import Task
from eosin.coordinator.groups.streams.log.replay import replayed
from eosin.coordinator.groups.streams.rules.events import (
    DelayEnded,
    Status,
)
from eosin.coordinator.groups.streams.rules.group import (
    HeldTasks,
    StreamsGroup,
    StreamsGroupState,
    StreamsMemberState,
    UserEndpoint,
)
from eosin.coordinator.groups.streams.rules.reconciliation import OwnedTasks
from eosin.coordinator.groups.streams.rules.records import StreamsKind
from eosin.coordinator.groups.streams.topology.topology import Subtopology, Topology
from eosin.protocol.errors import ErrorCode


def test_the_first_member_gets_every_task_in_one_batch_of_records() -> None:
    cluster = Cluster()
    answer = cluster.join("m")
    assert (answer.error, answer.epoch, answer.statuses) == (ErrorCode.NONE, 2, {})
    assert active(answer) == {0, 1, 2, 3}
    assert cluster.kinds == [
        StreamsKind.TOPOLOGY,
        StreamsKind.MEMBER,
        StreamsKind.GROUP,
        StreamsKind.TARGET,
        StreamsKind.TARGET_EPOCH,
        StreamsKind.CURRENT,
    ]
    assert cluster.group.state is StreamsGroupState.STABLE
    again = cluster.beat("m", 2)
    assert (again.epoch, again.tasks, cluster.kinds) == (2, None, [])


def test_the_second_member_waits_until_the_first_has_closed_its_tasks() -> None:
    cluster = Cluster()
    cluster.join("m")
    joined = cluster.join("n")
    assert (joined.epoch, active(joined)) == (3, set())
    asked = cluster.beat("m", 2, owned(0, 1, 2, 3))
    assert asked.epoch == 2
    kept = active(asked)
    assert len(kept) == 2
    assert active(cluster.beat("m", 2, owned(*kept))) == kept
    given_now = cluster.beat("n", 3, NOTHING)
    assert active(given_now) == {0, 1, 2, 3} - kept
    assert cluster.group.state is StreamsGroupState.STABLE


def test_the_first_members_wait_for_others_and_tasks_come_without_a_heartbeat() -> None:
    cluster = Cluster(StreamsGroupConfig(assignment_interval_ms=0))
    first = cluster.join("m")
    delayed = "Assignment delayed due to the configured initial rebalance delay."
    assert (active(first), first.statuses) == (set(), {Status.ASSIGNMENT_DELAYED: delayed})
    cluster.join("n")
    cluster.happens(DelayEnded())
    assert {len(target.active) for target in cluster.group.targets.values()} == {2}
    assert active(cluster.beat("m", first.epoch, NOTHING)) | active(cluster.beat("n", 1, NOTHING)) == {0, 1, 2, 3}


def test_missing_topics_are_told_and_tasks_come_when_they_are_there() -> None:
    cluster = Cluster(other=1)
    assert set(cluster.join("m", COUNTING).statuses) == {Status.MISSING_SOURCE_TOPICS}
    cluster.topics = topics(words=2)
    waiting = cluster.beat("m", cluster.group.assignment_epoch, NOTHING)
    assert set(waiting.statuses) == {Status.MISSING_INTERNAL_TOPICS}
    assert [(topic.name, topic.partitions) for topic in waiting.missing] == [("counts", 2)]
    assert cluster.group.state is StreamsGroupState.NOT_READY
    cluster.topics = topics(words=2, counts=2)
    ready = cluster.beat("m", waiting.epoch, NOTHING)
    assert (active(ready), ready.statuses) == ({0, 1}, {})


def test_another_topology_waits_until_nobody_else_runs_the_present_one() -> None:
    cluster = Cluster(words=2, counts=2)
    cluster.join("m")
    cluster.join("n")
    newer = COUNTING._replace(epoch=1)
    refused = cluster.join("o", newer)
    assert (refused.error, "stop all of them" in str(refused.message)) == (ErrorCode.INVALID_REQUEST, True)
    for member_id in ("m", "n"):
        cluster.beat(member_id, -1)
    assert cluster.join("o", newer).error is ErrorCode.NONE
    stale = cluster.join("p", TOPOLOGY)
    assert Status.STALE_TOPOLOGY in stale.statuses


def test_a_topology_that_cannot_run_is_refused_at_once() -> None:
    answer = Cluster().join("m", Topology(0, (Subtopology("0", (), (), (), (), (), ()),)))
    assert (answer.error, answer.message) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "The topology cannot run: subtopology 0 reads no topic.",
    )


def test_epochs_fence_members_that_have_missed_something() -> None:
    cluster = Cluster()
    cluster.join("m")
    cluster.join("n")
    assert cluster.beat("m", 9).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert cluster.beat("m", 1).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert cluster.beat("gone", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    told = [str(cluster.beat(*each).message) for each in (("m", 9), ("gone", 1))]
    assert told[0].startswith("The streams group member has a greater member epoch (9) than the one known by the group")
    assert told[0].endswith("The member must abandon all its partitions and rejoin."), "in Apache Kafka's words"
    assert told[1] == f"Member gone is not a member of group {cluster.group.group_id}."
    assert cluster.beat("n", 0, NOTHING).error is ErrorCode.NONE, "it begins again"
    assert cluster.beat("m", 2, owned(7)).error is ErrorCode.INVALID_REQUEST, "there is no such task"


def test_one_member_stops_the_whole_application_until_the_group_is_empty() -> None:
    cluster = Cluster()
    cluster.join("m")
    cluster.join("n")
    assert Status.SHUTDOWN_APPLICATION in cluster.beat("m", -1, shuts_down=True).statuses
    assert Status.SHUTDOWN_APPLICATION in cluster.beat("n", 3).statuses
    cluster.beat("n", -1)
    assert cluster.join("m").statuses == {}


def test_members_hear_of_endpoints_when_these_answer_for_other_partitions() -> None:
    cluster = Cluster()
    first = cluster.join("m", endpoint=UserEndpoint("localhost", 8080))
    (told,) = first.endpoints or ()
    assert (told.endpoint.port, told.active) == (8080, (("words", (0, 1, 2, 3)),))
    assert cluster.beat("m", 2, endpoint_epoch=first.endpoint_epoch).endpoints is None


@pytest.mark.parametrize("kind", [ConsumerTimerKind.SESSION, ConsumerTimerKind.REBALANCE])
def test_a_member_that_is_too_late_is_gone_and_its_tasks_are_free(kind: ConsumerTimerKind) -> None:
    cluster = Cluster()
    cluster.join("m")
    cluster.join("n")
    epoch = cluster.beat("m", 2, owned(0, 1, 2, 3)).epoch
    cluster.happens(MemberTimerFired(ConsumerTimer(kind, "m"), epoch))
    assert set(cluster.group.members) == {"n"}
    assert active(cluster.beat("n", 3, NOTHING)) == {0, 1, 2, 3}


def test_a_full_group_takes_back_those_that_it_knows() -> None:
    cluster = Cluster(StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0, max_size=1))
    cluster.join("m")
    assert cluster.join("n").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert cluster.join("m").error is ErrorCode.NONE


def test_copies_are_kept_by_the_other_process() -> None:
    cluster = Cluster(
        StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0, num_standby_replicas=1),
        words=2,
        counts=2,
    )
    clients = {name: Client(cluster, name, COUNTING) for name in ("m", "n")}
    settle(clients)
    held = {name: cluster.group.members[name].assigned for name in clients}
    assert held["m"].standby == set(held["n"].active)
    assert held["n"].standby == set(held["m"].active)


class Client:
    """A member that does as it is told: it closes tasks that it is not to have, and says so with its next heartbeat."""

    def __init__(self, cluster: Cluster, name: str, topology: Topology = TOPOLOGY, process: str = "") -> None:
        self.cluster, self.name, self.topology, self.process = cluster, name, topology, process or name
        self.epoch = 0
        self.held = HeldTasks()

    def beat(self) -> None:
        """Send a heartbeat, and take up what comes back."""
        owned_now = OwnedTasks(frozenset(self.held.active), self.held.standby)
        if self.epoch == 0:
            answer = self.cluster.join(self.name, self.topology, self.process)
        else:
            answer = self.cluster.beat(self.name, self.epoch, owned_now)
        if answer.error is not ErrorCode.NONE:
            assert answer.error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
            self.epoch, self.held = 0, HeldTasks()
            return
        self.epoch = answer.epoch
        if answer.tasks is not None:
            self.held = answer.tasks


def settle(clients: Mapping[str, Client]) -> None:
    """Heartbeats until nothing moves."""
    for _ in range(12):
        for client in clients.values():
            client.beat()


STEPS = st.lists(
    st.tuples(st.sampled_from("bbbblrxgs"), st.sampled_from("mnop"), st.integers(1, 5)), min_size=1, max_size=40
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 1))
def test_no_task_runs_twice_and_members_that_do_as_told_come_to_their_tasks(
    steps: list[tuple[str, str, int]], replicas: int
) -> None:
    config = StreamsGroupConfig(assignment_interval_ms=0, initial_rebalance_delay_ms=0, num_standby_replicas=replicas)
    cluster = Cluster(config, words=4, counts=4)
    clients: dict[str, Client] = {}
    for kind, name, number in steps:
        client = clients.setdefault(name, Client(cluster, name, COUNTING, "one" if name in "mn" else name))
        match kind:
            case "b":
                client.beat()
            case "l" if client.epoch:
                cluster.beat(name, -1)
                del clients[name]
            case "r":  # it has lost everything, and comes back under its id
                client.epoch, client.held = 0, HeldTasks()
            case "x" if name in cluster.group.members:
                cluster.happens(MemberTimerFired(ConsumerTimer(ConsumerTimerKind.SESSION, name), 0))
            case "s" if client.epoch:  # an answer is lost
                cluster.beat(name, client.epoch, OwnedTasks(frozenset(client.held.active), client.held.standby))
            case "g":
                cluster.topics = topics(words=number, counts=number)
        _check(cluster)
    for name in list(clients):
        if name not in cluster.group.members:
            clients[name].epoch = 0
    settle(clients)
    _check(cluster)
    if clients:
        assert cluster.group.state is StreamsGroupState.STABLE
        running = [task for member in cluster.group.members.values() for task in member.assigned.active]
        assert sorted(running) == [Task("0", number) for number in range(cluster.topics["words"].partitions)]


def _check(cluster: Cluster) -> None:
    group = cluster.group
    assert replayed(cluster.log.values()).groups.get("g", StreamsGroup("g")) == cluster.written()
    running = [task for member in group.members.values() for task in member.active()]
    assert len(running) == len(set(running)) == len(group.owners)
    for member in group.members.values():
        assert member.epoch <= group.assignment_epoch <= group.epoch
        assert (member.state is StreamsMemberState.UNREVOKED_TASKS) != member.pending.is_empty


def test_tags_that_members_are_to_have_begin_an_epoch_and_change_no_task() -> None:
    cluster = Cluster()
    before = cluster.join("m", tags=(("zone", "a"),))
    cluster.config = StreamsGroupConfig(
        assignment_interval_ms=0, initial_rebalance_delay_ms=0, rack_aware_assignment_tags=("zone", "rack")
    )
    told = cluster.beat("m", before.epoch)
    assert (told.epoch, active(told), set(told.statuses)) == (
        before.epoch + 1,
        active(before),
        {Status.MISSING_CLIENT_TAGS},
    )
    assert "rack." in told.statuses[Status.MISSING_CLIENT_TAGS]
    assert cluster.group.assignment_configs == (
        ("num.standby.replicas", "0"),
        ("rack.aware.assignment.tags", "zone,rack"),
    )
    assert cluster.beat("m", told.epoch, version=0).statuses == {}
    assert cluster.beat("m", told.epoch, tags=(("rack", "b"), ("zone", "a"))).statuses == {}


def test_what_a_plugin_of_apache_kafka_has_kept_stays_in_the_log() -> None:
    cluster = Cluster()
    cluster.group = replace(cluster.group, plugin_epochs=(3, 2))
    cluster.join("m")
    assert replayed(cluster.log.values()).groups["g"].plugin_epochs == (3, 2)
