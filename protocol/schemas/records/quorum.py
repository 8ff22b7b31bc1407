"""Contents of the control records of a quorum's log: values behind an int16 version, by their key's type (cluster.md
3.4).

`TYPES` has them by that type; 0 and 1 are markers of transactions, which a metadata log does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

from eosin.protocol.names import ZERO_UUID
from eosin.protocol.types import Int16, Int32, Int64, Message, RecordSchema, Uint16, Uuid


class LeaderVoter(Message):
    voter_id: Int32 = 0
    voter_directory_id: Annotated[Uuid, "1+"] = ZERO_UUID


class LeaderChangeMessage(Message):
    """The first record of each raft epoch."""

    leader_id: Int32 = 0
    voters: tuple[LeaderVoter, ...] = ()
    granting_voters: tuple[LeaderVoter, ...] = ()


class SnapshotHeaderRecord(Message):
    """A snapshot begins."""

    last_contained_log_timestamp: Int64 = 0  # ms


class SnapshotFooterRecord(Message):
    """A snapshot is whole."""


class KRaftVersionRecord(Message):
    """The finalized level of `kraft.version`."""

    kraft_version: Int16 = 0


class VoterEndpoint(Message):
    name: str = ""
    host: str = ""
    port: Uint16 = 0


class KRaftVersionFeature(Message):
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class QuorumVoter(Message):
    voter_id: Int32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    endpoints: tuple[VoterEndpoint, ...] = ()
    kraft_version_feature: KRaftVersionFeature = KRaftVersionFeature()


class VotersRecord(Message):
    """All voters; in force when it is read, not only when it is committed (KIP-853)."""

    voters: tuple[QuorumVoter, ...] = ()


TYPES: Final[Mapping[int, RecordSchema]] = {
    2: RecordSchema(LeaderChangeMessage, versions=range(0, 2), flexible_from=0),
    3: RecordSchema(SnapshotHeaderRecord, versions=range(0, 1), flexible_from=0),
    4: RecordSchema(SnapshotFooterRecord, versions=range(0, 1), flexible_from=0),
    5: RecordSchema(KRaftVersionRecord, versions=range(0, 1), flexible_from=0),
    6: RecordSchema(VotersRecord, versions=range(0, 1), flexible_from=0),
}
