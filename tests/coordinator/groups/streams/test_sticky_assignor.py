"""The assignor `sticky` of streams groups: every task once, evenly, near its state, few moves (streams-groups.md 5)."""

import sys
from collections import Counter
from random import Random
from types import FrameType
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from eosin.coordinator.groups.streams.assignors.sticky import PER_STEP, assign, assign_in_steps, tasks_of
from eosin.coordinator.groups.streams.assignors.tasks import MemberTasks, Task, TaskCount, TaskMember, TaskTarget

STATELESS = {"0": TaskCount(6, is_stateful=False)}
STATEFUL = {"0": TaskCount(4, is_stateful=True)}


def members(*processes: str) -> list[TaskMember]:
    """m0, m1, ... in processes by name."""
    return [TaskMember(f"m{number}", name) for number, name in enumerate(processes)]


def active(target: TaskTarget) -> dict[str, int]:
    return {name: len(tasks.active) for name, tasks in target.items()}


def tasks(*numbers: int) -> frozenset[Task]:
    return frozenset(Task("0", number) for number in numbers)


def test_tasks_are_dealt_out_evenly_over_members() -> None:
    assert active(assign(members("a", "b", "c"), STATELESS, {})) == {"m0": 2, "m1": 2, "m2": 2}
    assert active(assign(members("a"), STATELESS, {})) == {"m0": 6}
    assert assign([], STATELESS, {}) == {}


def test_a_process_with_two_members_runs_twice_as_many() -> None:
    assert active(assign(members("a", "a", "b"), STATELESS, {})) == {"m0": 2, "m1": 2, "m2": 2}


def test_a_member_that_joins_takes_its_part_and_no_other_task_moves() -> None:
    before = assign(members("a", "b"), STATELESS, {})
    after = assign(members("a", "b", "c"), STATELESS, before)
    assert active(after) == {"m0": 2, "m1": 2, "m2": 2}
    assert after["m0"].active < before["m0"].active
    assert after["m1"].active < before["m1"].active


def test_a_task_whose_member_is_gone_goes_where_a_copy_of_its_state_is() -> None:
    target = assign(members("a", "b"), STATEFUL, {"m1": MemberTasks(standby=tasks(0, 1))})
    assert (target["m0"].active, target["m1"].active) == (tasks(2, 3), tasks(0, 1))


def test_copies_are_kept_by_other_processes_and_by_those_which_had_the_state() -> None:
    before = assign(members("a", "b"), STATEFUL, {}, standby_replicas=1)
    assert before["m0"].standby == before["m1"].active
    assert before["m1"].standby == before["m0"].active
    after = assign(members("a", "b", "c"), STATEFUL, before, standby_replicas=1)
    for name in ("m0", "m1"):
        assert after[name].active < before[name].active | before[name].standby


def test_no_process_keeps_a_copy_of_what_it_runs() -> None:
    alone = assign(members("a", "a"), STATEFUL, {}, standby_replicas=1)
    assert [each.standby for each in alone.values()] == [frozenset(), frozenset()]


def test_stateless_tasks_have_no_copies() -> None:
    assert all(not each.standby for each in assign(members("a", "b"), STATELESS, {}, standby_replicas=1).values())


TOPOLOGIES = st.dictionaries(
    st.sampled_from("012"), st.builds(TaskCount, st.integers(1, 7), st.booleans()), min_size=1, max_size=3
)
GROUPS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=6)


@given(TOPOLOGIES, GROUPS, GROUPS, st.integers(0, 2), st.randoms(use_true_random=False))
@example(STATEFUL, ["a", "a"], ["b", "a", "b"], 2, Random(1)).via(
    "m1 had two tasks, m2 none, and the next target moved one"
)
def test_every_task_runs_once_and_no_process_has_a_task_twice(
    topology: dict[str, TaskCount], first: list[str], second: list[str], replicas: int, chance: Random
) -> None:
    before = assign(members(*first), topology, {}, standby_replicas=replicas)
    group = members(*second)
    target = assign(group, topology, before, standby_replicas=replicas)
    assert Counter(task for each in target.values() for task in each.active) == Counter(tasks_of(topology))
    held: Counter[tuple[str, Task]] = Counter()
    for member in group:
        held.update((member.process_id, task) for task in target[member.member_id].active)
        held.update((member.process_id, task) for task in target[member.member_id].standby)
    assert not held or max(held.values()) == 1
    copies = Counter(task for each in target.values() for task in each.standby)
    wanted = min(replicas, len(set(second)) - 1)
    stateful = {task for task in tasks_of(topology) if topology[task.subtopology_id].is_stateful}
    assert copies == Counter(dict.fromkeys(stateful, wanted)) or not wanted
    counts = active(target).values()
    assert max(counts) - min(counts) <= 1
    chance.shuffle(group)
    assert assign(group, topology, before, standby_replicas=replicas) == target
    assert assign(group, topology, target, standby_replicas=replicas) == target


def test_no_step_goes_through_all_members() -> None:
    """The first one took 30 ms of 10,000."""
    many = members(*(f"p{number:05}" for number in range(10 * PER_STEP)))
    previous = {"m0": MemberTasks(tasks(0))}
    steps = assign_in_steps(many, {"0": TaskCount(2, is_stateful=True)}, previous, standby_replicas=1)
    calls = [0]

    def note(frame: FrameType, event: str, _: Any) -> None:
        calls[-1] += event == "call"

    sys.setprofile(note)
    try:
        for _ in steps:
            calls.append(0)
    finally:
        sys.setprofile(None)
    assert len(calls) > len(many)
    assert max(calls) < len(many), calls.index(max(calls))
