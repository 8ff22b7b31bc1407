"""Decides what a broker tells the controller about the directory of a replica: nothing, that it is lost, or that it is
here (cluster.md 4.18). Pure.

Assigning our directory vouches for what is in it: the controller may then elect this replica, whatever its log holds.
Always true: nobody vouches for a log that is empty or damaged and that should not be.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from eosin.cluster.quorum.rules.image import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
    RegisteredBroker,
)
from eosin.protocol.names import Uuid


class LocalLog(Enum):
    """The state in which a start finds a replica."""

    SOUND = "sound"
    NEVER_WRITTEN = "never written"
    """There is none, and no recovery point speaks of one."""
    LOST = "lost"
    """It is damaged, or missing though a recovery point speaks of it."""


class Duty(Enum):
    """The report about a replica that is due."""

    NOTHING = "nothing"
    DECLARE_LOST = "declare it lost"
    """Before this broker asks to be unfenced: else it could be elected. What is left of the log is set aside."""
    ASSIGN = "assign it to our directory"
    ASSIGN_WHEN_CAUGHT_UP = "assign it once it has what is committed"
    """It follows whoever leads, and must not lead before."""


_NOWHERE: Final = frozenset({MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY})


def duty_at_start(assigned: Uuid, own: Uuid, log: LocalLog) -> Duty:
    """The report about a replica that is due at a start. `assigned` is the directory that the image has for it, `own`
    is ours."""
    if assigned != own and assigned not in _NOWHERE:  # lost, or on a disk that was replaced
        return Duty.ASSIGN_WHEN_CAUGHT_UP
    if log is LocalLog.LOST:
        return Duty.DECLARE_LOST
    return Duty.NOTHING if assigned == own else Duty.ASSIGN


def may_assign_now(log_end_offset: int, durable_end: int, leader_high_watermark: int) -> bool:
    """True if a replica in sync that is to be assigned once it has caught up may be: all that its leader tells to be
    committed is durable here."""
    return min(log_end_offset, durable_end) >= leader_high_watermark


def directory_of(registration: PartitionRegistration, node_id: int) -> Uuid:
    """The directory of a broker's replica, as the image has it: MIGRATING for one that was never told (cluster.md
    3.9), LOST for a broker without a replica."""
    if node_id not in registration.replicas:
        return LOST_DIRECTORY
    index = registration.replicas.index(node_id)
    return registration.directories[index] if index < len(registration.directories) else MIGRATING_DIRECTORY


def copies_elsewhere(
    registration: PartitionRegistration, node_id: int, brokers: Mapping[int, RegisteredBroker]
) -> tuple[int, ...]:
    """The other brokers whose copies an election could make the leader's, in the order of the replicas: they are
    registered and not fenced, and the replica's directory is online."""
    found = []
    for each in registration.replicas:
        broker = brokers.get(each)
        if each != node_id and broker is not None and not broker.fenced:
            directory = directory_of(registration, each)
            if directory in _NOWHERE or directory in broker.log_dirs:
                found.append(each)
    return tuple(found)
