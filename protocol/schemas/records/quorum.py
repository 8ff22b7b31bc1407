"""What control records of a quorum's log say: values behind an int16 version, by their key's type (cluster.md 3.4).

`TYPES` has them by that type; 0 and 1 are markers of transactions, which a metadata log does not have.
"""

from collections.abc import Mapping
from typing import Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import (
    Int16,
    Int32,
    Int64,
    Layout,
    Message,
    RecordSchema,
    Uint16,
    Uuid,
    array,
    message,
    string,
    when,
)


class LeaderVoter(Message):
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID


class LeaderChangeMessage(Message):
    """The first record of each raft epoch."""

    leader_id: int = 0
    voters: tuple[LeaderVoter, ...] = ()
    granting_voters: tuple[LeaderVoter, ...] = ()


class SnapshotHeaderRecord(Message):
    """A snapshot begins."""

    last_contained_log_timestamp: int = 0  # ms


class SnapshotFooterRecord(Message):
    """A snapshot is whole."""


class KRaftVersionRecord(Message):
    """The finalized level of `kraft.version`."""

    kraft_version: int = 0


class VoterEndpoint(Message):
    name: str = ""
    host: str = ""
    port: int = 0


class KRaftVersionFeature(Message):
    min_supported_version: int = 0
    max_supported_version: int = 0


class QuorumVoter(Message):
    voter_id: int = 0
    voter_directory_id: bytes = ZERO_UUID
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


class VotersRecord(Message):
    """All voters; in force when it is read, not only when it is committed (KIP-853)."""

    voters: tuple[QuorumVoter, ...] = ()


def leader_change_message(version: int) -> Layout:
    """LeaderChangeMessage at `version`."""
    voter = message(
        LeaderVoter,
        True,
        "voter_id" / Int32,
        *when(version >= 1, "voter_directory_id" / Uuid),
    )
    return message(
        LeaderChangeMessage,
        True,
        "leader_id" / Int32,
        "voters" / array(voter, True),
        "granting_voters" / array(voter, True),
    )


def snapshot_header_record(version: int) -> Layout:
    """SnapshotHeaderRecord at `version`."""
    return message(SnapshotHeaderRecord, True, "last_contained_log_timestamp" / Int64)


def snapshot_footer_record(version: int) -> Layout:
    """SnapshotFooterRecord at `version`."""
    return message(SnapshotFooterRecord, True)


def kraft_version_record(version: int) -> Layout:
    """KRaftVersionRecord at `version`."""
    return message(KRaftVersionRecord, True, "kraft_version" / Int16)


def voters_record(version: int) -> Layout:
    """VotersRecord at `version`."""
    endpoint = message(
        VoterEndpoint,
        True,
        "name" / string(True),
        "host" / string(True),
        "port" / Uint16,
    )
    feature = message(
        KRaftVersionFeature,
        True,
        "min_supported_version" / Int16,
        "max_supported_version" / Int16,
    )
    voter = message(
        QuorumVoter,
        True,
        "voter_id" / Int32,
        "voter_directory_id" / Uuid,
        "endpoints" / array(endpoint, True),
        "kraft_version_feature" / feature,
    )
    return message(VotersRecord, True, "voters" / array(voter, True))


TYPES: Final[Mapping[int, RecordSchema]] = {
    2: RecordSchema(LeaderChangeMessage, versions=range(0, 2), layout=leader_change_message),
    3: RecordSchema(SnapshotHeaderRecord, versions=range(0, 1), layout=snapshot_header_record),
    4: RecordSchema(SnapshotFooterRecord, versions=range(0, 1), layout=snapshot_footer_record),
    5: RecordSchema(KRaftVersionRecord, versions=range(0, 1), layout=kraft_version_record),
    6: RecordSchema(VotersRecord, versions=range(0, 1), layout=voters_record),
}
