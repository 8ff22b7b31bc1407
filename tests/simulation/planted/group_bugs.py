"""Bugs of consumer groups (KIP-848) and streams groups (KIP-1071), and of what their members commit."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from eosin.coordinator.groups.consumer.rules import commits, heartbeat
from eosin.coordinator.groups.consumer.rules.group import ConsumerMember
from eosin.coordinator.groups.streams.rules import commits as streams_commits
from eosin.coordinator.groups.streams.rules import heartbeat as streams_heartbeat
from eosin.coordinator.groups.streams.rules.group import StreamsMember
from eosin.protocol.errors import ErrorCode
from simulation.planted.places import plant


@contextmanager
def member_epoch_not_checked() -> Iterator[None]:
    """A member of a consumer group whose partitions others have by now may commit offsets in its transaction."""
    with plant(commits, "transactional_commit", lambda *group, **member: ErrorCode.NONE):
        yield


@contextmanager
def older_epochs_commit_anything() -> Iterator[None]:
    """A member that has not heard of its newest epoch may commit what it has given up."""

    def careless(member: ConsumerMember, member_epoch: int, *_: Any) -> ErrorCode:
        return ErrorCode.NONE if member_epoch <= member.epoch else ErrorCode.ILLEGAL_GENERATION

    with plant(commits, "_of_epoch", careless):
        yield


@contextmanager
def partition_given_while_another_has_it() -> Iterator[None]:
    """A member gets its whole target at once, also what others have not revoked yet."""
    reconciled = heartbeat.reconciled

    def careless(member: ConsumerMember, **rest: Any) -> ConsumerMember:
        return reconciled(member, **{**rest, "owners": {}})

    with plant(heartbeat, "reconciled", careless):
        yield


@contextmanager
def task_given_while_another_runs_it() -> Iterator[None]:
    """A member of a streams group gets its whole target at once, also tasks that others run still."""
    reconciled = streams_heartbeat.reconciled

    def careless(member: StreamsMember, **rest: Any) -> StreamsMember:
        return reconciled(member, **{**rest, "owners": {}})

    with plant(streams_heartbeat, "reconciled", careless):
        yield


@contextmanager
def epoch_of_streams_not_checked() -> Iterator[None]:
    """A member of a streams group whose tasks others run by now may commit offsets in its transaction."""
    with plant(streams_commits, "commit", lambda *group, **member: ErrorCode.NONE):
        yield
