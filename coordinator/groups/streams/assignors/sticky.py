"""The assignor `sticky`: each task runs once, where it ran before or where a copy of its state is, evenly over members;
copies are kept by other processes (KIP-1071, streams-groups.md 5).

A task goes back to whom it was with as long as that member has no more than its part; else to a member with a copy of
its state; else to the member with the fewest tasks, of several to that of the process with the least to do. What a
process has to do is its tasks divided by its members.

Always true: members differ by one active task at most. So in a target that is made again from itself everybody has no
more than its part, and nothing moves.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from eosin.coordinator.groups.streams.assignors.tasks import (
    NO_TASKS,
    MemberTasks,
    Task,
    TaskCount,
    TaskMember,
    Tasks,
    TaskSteps,
    TaskTarget,
)
from eosin.coordinator.steps import finished

NAME: Final = "sticky"
PER_STEP: Final = 300
"""Tasks that one step deals out: each takes a few microseconds."""


def assign(
    members: Sequence[TaskMember],
    subtopologies: Mapping[str, TaskCount],
    previous: TaskTarget,
    *,
    standby_replicas: int = 0,
) -> TaskTarget:
    """The target that follows `previous`."""
    return finished(assign_in_steps(members, subtopologies, previous, standby_replicas=standby_replicas))


def assign_in_steps(
    members: Sequence[TaskMember],
    subtopologies: Mapping[str, TaskCount],
    previous: TaskTarget,
    *,
    standby_replicas: int = 0,
) -> TaskSteps:
    """The same, in steps. The result does not depend on the order of `members`. Fewer copies are kept than
    `standby_replicas` where there are too few processes."""
    if not members:
        return {}
    dealing = _Dealing()
    yield from dealing.begin(members, previous)
    tasks = [Task(name, number) for name, subtopology in subtopologies.items() for number in range(subtopology.tasks)]
    yield from dealing.deal_active(tasks)
    if standby_replicas:
        yield from dealing.deal_standby(
            [each for each in tasks if subtopologies[each.subtopology_id].is_stateful], standby_replicas
        )
    target: dict[str, MemberTasks] = {}
    for holder in dealing.holders.values():
        target[holder.member_id] = holder.outcome(previous.get(holder.member_id))
        yield
    return target


class _Process:
    """A process with its members."""

    __slots__ = ("count", "holders", "name", "queue", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.holders = 0
        self.queue: _LeastLoaded[_Holder] = _LeastLoaded()
        self.tasks: set[Task] = set()
        self.count = 0

    @property
    def rank(self) -> tuple[float, str]:
        """The lower, the less each of its members has to do on average."""
        return self.count / self.holders, self.name

    @property
    def least(self) -> "_Holder":
        """The member with the least to do."""
        holder = self.queue.first()
        assert holder is not None
        return holder

    @property
    def turn(self) -> tuple[int, float, str]:
        """The lower, the sooner one of its members is given an active task."""
        return self.least.rank[0], *self.rank


class _Holder:
    """A member with what it has been given."""

    __slots__ = ("active", "member_id", "process", "standby")

    def __init__(self, member_id: str, process: _Process) -> None:
        self.member_id = member_id
        self.process = process
        self.active: set[Task] = set()
        self.standby: set[Task] = set()

    @property
    def rank(self) -> tuple[int, str]:
        """The lower, the less it has to do."""
        return len(self.active) + len(self.standby), self.member_id

    def outcome(self, before: MemberTasks | None) -> MemberTasks:
        """Its tasks; the former value where nothing has changed, for there may be thousands."""
        now = MemberTasks(frozenset(self.active), frozenset(self.standby))
        return before if before == now else now


class _Ranked(Protocol):
    @property
    def rank(self) -> tuple[float, str]:
        """The lower, the sooner its turn."""


_R = TypeVar("_R", bound=_Ranked)


class _LeastLoaded(Generic[_R]):
    """Things by rank. Whoever changes a rank puts the thing in again."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, str], _R]] = []

    def put(self, thing: _R) -> None:
        """`thing` by its rank as it is now."""
        heapq.heappush(self._heap, (thing.rank, thing))

    def first(self, is_free: Callable[[_R], bool] = lambda _: True) -> _R | None:
        """The first one that is free; None when none is."""
        passed: list[tuple[tuple[float, str], _R]] = []
        found = None
        while self._heap:
            rank, thing = self._heap[0]
            if rank != thing.rank:
                heapq.heappop(self._heap)  # it has another place since
            elif is_free(thing):
                found = thing
                break
            else:
                passed.append(heapq.heappop(self._heap))
        for each in passed:
            heapq.heappush(self._heap, each)
        return found


class _Dealing:
    """Tasks as they are dealt out."""

    def __init__(self) -> None:
        self.holders: dict[str, _Holder] = {}
        self._processes: tuple[_Process, ...] = ()
        self._queue: _LeastLoaded[_Process] = _LeastLoaded()
        self._owners: dict[Task, _Holder] = {}
        self._copies: dict[Task, list[_Holder]] = {}

    def begin(self, members: Sequence[TaskMember], previous: TaskTarget) -> Iterator[None]:
        """Take the members in, with what each had: one of them in each step."""
        processes: dict[str, _Process] = {}
        for member in sorted(members):
            process = processes.get(member.process_id)
            if process is None:
                process = processes[member.process_id] = _Process(member.process_id)
            holder = self.holders[member.member_id] = _Holder(member.member_id, process)
            process.holders += 1
            process.queue.put(holder)
            yield
        self._processes = tuple(processes.values())
        for process in self._processes:
            self._queue.put(process)
            yield
        for holder in self.holders.values():
            had = previous.get(holder.member_id, NO_TASKS)
            self._owners.update((task, holder) for task in had.active)
            for task in had.standby:
                self._copies.setdefault(task, []).append(holder)
            yield

    def _give(self, task: Task, holder: _Holder, *, as_standby: bool = False) -> None:
        (holder.standby if as_standby else holder.active).add(task)
        process = holder.process
        process.tasks.add(task)
        process.count += 1
        process.queue.put(holder)
        self._queue.put(process)

    # Active tasks

    def deal_active(self, tasks: Iterable[Task]) -> Iterator[None]:
        """Give each task to one member."""
        left = sorted(tasks, key=lambda task: (task.partition, task.subtopology_id))
        part = _Part(len(left), len(self.holders))
        for candidates in (self._owner_of, self._best_copy_of):
            kept, left = left, []
            for number, task in enumerate(kept):
                holder = candidates(task)
                if holder is not None and len(holder.active) < part.size:
                    self._give(task, holder)
                    part.given(holder)
                else:
                    left.append(task)
                if not number % PER_STEP:
                    yield
        yield from self._deal_rest(sorted(left))

    def _owner_of(self, task: Task) -> _Holder | None:
        return self._owners.get(task)

    def _best_copy_of(self, task: Task) -> _Holder | None:
        copies = self._copies.get(task)
        return min(copies, key=_load) if copies else None

    def _deal_rest(self, tasks: Sequence[Task]) -> Iterator[None]:
        turns: list[tuple[tuple[int, float, str], _Process]] = []
        for number, each in enumerate(self._processes if tasks else ()):
            turns.append((each.turn, each))
            if not number % PER_STEP:
                yield
        heapq.heapify(turns)
        for number, task in enumerate(tasks):
            process = turns[0][1]
            self._give(task, process.least)
            heapq.heapreplace(turns, (process.turn, process))
            if not number % PER_STEP:
                yield

    # Standby tasks

    def deal_standby(self, tasks: Iterable[Task], replicas: int) -> Iterator[None]:
        """Give copies of each task to other processes, at most one to each."""
        for number, task in enumerate(sorted(tasks, key=lambda task: (task.partition, task.subtopology_id))):
            if not number % PER_STEP:
                yield
            for _ in range(replicas):
                holder = self._home_of_copy(task)
                if holder is None:
                    break
                self._give(task, holder, as_standby=True)

    def _home_of_copy(self, task: Task) -> _Holder | None:
        """The member that has the state already; else that with the least to do. None when each process has the
        task."""
        owner = self._owners.get(task)
        if owner is not None and task not in owner.process.tasks:
            return owner
        copies = [each for each in self._copies.get(task, ()) if task not in each.process.tasks]
        if copies:
            return min(copies, key=_load)
        process = self._queue.first(lambda process: task not in process.tasks)
        return None if process is None else process.least


def _load(holder: _Holder) -> tuple[float, int, str]:
    return holder.process.rank[0], *holder.rank


class _Part:
    """The number of active tasks that a member may keep: those that are left, by the members that are not full yet."""

    __slots__ = ("_members", "_tasks", "size")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.size = -(-tasks // members)

    def given(self, holder: _Holder) -> None:
        """The member has one more."""
        if len(holder.active) == self.size:
            self._tasks -= self.size
            self._members -= 1
            if self._members:
                self.size = -(-self._tasks // self._members)


def tasks_of(subtopologies: Mapping[str, TaskCount]) -> Tasks:
    """All tasks of a topology."""
    return frozenset(
        Task(name, number) for name, subtopology in subtopologies.items() for number in range(subtopology.tasks)
    )
