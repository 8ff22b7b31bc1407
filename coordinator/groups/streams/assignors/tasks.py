"""Values that assignors of tasks take and give (streams-groups.md 5)."""

from collections.abc import Mapping
from typing import NamedTuple

from eosin.coordinator.steps import InSteps


class Task(NamedTuple):
    """One task of a subtopology: it reads the partition of its number of each topic."""

    subtopology_id: str
    partition: int


Tasks = frozenset[Task]


class MemberTasks(NamedTuple):
    """The tasks of one member. It runs the active ones, and keeps copies of the state of the others."""

    active: Tasks = frozenset()
    standby: Tasks = frozenset()


NO_TASKS = MemberTasks()


class TaskMember(NamedTuple):
    """A member of a group, as far as an assignor sees it."""

    member_id: str
    process_id: str
    """Members of one process lose their state together."""


class TaskCount(NamedTuple):
    """The tasks of one subtopology."""

    tasks: int
    is_stateful: bool


TaskTarget = Mapping[str, MemberTasks]
"""The tasks of each member, by member id. A member that is not in it has none."""

TaskSteps = InSteps[TaskTarget]
