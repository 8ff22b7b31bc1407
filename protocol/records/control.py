"""Control batches: the markers that end transactions (wire.md section 6).

Always true: a marker batch is transactional and control, holds one record, has no sequence, is not compressed.
"""

import struct
from enum import IntEnum
from typing import Final

import msgspec

from eosin.protocol.records.checksum import crc32c
from eosin.protocol.records.compression import CorruptRecords
from eosin.protocol.records.fields import Record
from eosin.protocol.records.header import (
    CONTROL,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    STAMP_BYTES,
    TRANSACTIONAL,
    stamp,
)

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
# Every field of a marker's record has a fixed length: length 16, attributes, timestamp delta, offset delta,
# key length 4, key, value length 6, value, no headers.
_RECORD: Final = "bbbbb hh b hi b"
_CHECKED: Final = struct.Struct(">hiqqqhii" + _RECORD)
"""The bytes that the checksum covers: the header from the attributes on, and the record."""
_ATTRIBUTES: Final = TRANSACTIONAL | CONTROL
_MAGIC_AND_CRC: Final = struct.Struct(">bI")
_MARKER_BYTES: Final = STAMP_BYTES + _MAGIC_AND_CRC.size + _CHECKED.size


class ControlType(IntEnum):
    """The control records that this broker acts on."""

    ABORT = 0
    COMMIT = 1


class ControlRecord(msgspec.Struct, frozen=True, gc=False):
    """A transaction marker, read."""

    type: ControlType
    coordinator_epoch: int

    @property
    def is_commit(self) -> bool:
        """True if the transaction was committed."""
        return self.type is ControlType.COMMIT


def build_control_batch(
    *,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A whole marker batch; `timestamp` in ms."""
    head = stamp(base_offset=base_offset, size=_MARKER_BYTES, partition_leader_epoch=partition_leader_epoch)
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    checked = _CHECKED.pack(
        _ATTRIBUTES, 0, timestamp, timestamp, producer_id, producer_epoch, NO_SEQUENCE, 1,
        16 << 1, 0, 0, 0, 4 << 1, 0, kind, 6 << 1, 0, coordinator_epoch, 0,
    )  # fmt: skip
    return bytearray().join((head, _MAGIC_AND_CRC.pack(MAGIC, crc32c(checked)), checked))


def parse_control_record(record: Record) -> ControlRecord | None:
    """The marker in a control record, None when its type is not a transaction marker's. Versions newer than ours are
    read as ours. Raises CorruptRecords when it is no control record at all."""
    try:
        version, kind = _KEY.unpack_from(record.key or b"")
        if version < 0:
            raise CorruptRecords(f"control record key version {version}")
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return None
        value_version, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct.error as error:
        raise CorruptRecords("a control record is too short") from error
    if value_version < 0:
        raise CorruptRecords(f"control record value version {value_version}")
    return ControlRecord(ControlType(kind), coordinator_epoch)
