"""Read the output of DumpLogSegments strictly: a line that is not understood is an error.

Rows have the names of `eosin dump-log --json`, so that both can be compared.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_BATCH = re.compile(
    r"baseOffset: (?P<base_offset>\d+) lastOffset: (?P<last_offset>\d+) count: (?P<records_count>\d+)"
    r" baseSequence: (?P<base_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+)"
    r" producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+)"
    r" partitionLeaderEpoch: (?P<partition_leader_epoch>-?\d+) isTransactional: (?P<is_transactional>\w+)"
    r" isControl: (?P<is_control>\w+) deleteHorizonMs: (?P<delete_horizon_ms>\S+) position: (?P<position>\d+)"
    r" (?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) size: (?P<size>\d+) magic: (?P<magic>\d+)"
    r" compresscodec: (?P<compression>\w+) crc: (?P<crc>\d+) isvalid: (?P<is_valid>\w+)"
)
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+)"
    r" valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<header_keys>.*?)\]"
    r"(?: endTxnMarker: (?P<control>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+))?"
    r"(?: key: (?P<key>.*?) payload: (?P<payload>.*))?"
)
_OFFSET_ENTRY = re.compile(r"offset: (?P<offset>\d+) position: (?P<position>\d+)")
_TIME_ENTRY = re.compile(r"timestamp: (?P<timestamp>\d+) offset: (?P<offset>\d+)")
_ABORTED = re.compile(
    r"version: 0 producerId: (?P<producer_id>\d+) firstOffset: (?P<first_offset>\d+)"
    r" lastOffset: (?P<last_offset>\d+) lastStableOffset: (?P<last_stable_offset>\d+)"
)
_PRODUCER = re.compile(
    r"producerId: (?P<producer_id>\d+) producerEpoch: (?P<producer_epoch>-?\d+)"
    r" coordinatorEpoch: (?P<coordinator_epoch>-?\d+)"
    r" currentTxnFirstOffset: (?P<transaction_first_offset>\S+) lastTimestamp: (?P<last_timestamp>-?\d+)"
    r"(?: firstSequence: (?P<first_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+)"
    r" lastOffset: (?P<last_offset>-?\d+) offsetDelta: (?P<offset_delta>-?\d+) timestamp: -?\d+)?"
)
_KINDS = {
    "batch": _BATCH,
    "record": _RECORD,
    "offset_entry": _OFFSET_ENTRY,
    "time_entry": _TIME_ENTRY,
    "aborted_transaction": _ABORTED,
    "producer": _PRODUCER,
}
_HARMLESS = re.compile(
    r"Log starting offset: \d+|Snapshot end offset: .*|.* is empty\.|.* passed sanity check\.|"
    r"(key|payload) type: .*"
)
_COMPLAINT = re.compile(
    r"(Mismatches|Non-consecutive offsets|Found |Snapshot is corrupt|Index timestamp|.*out of order)"
)


@dataclass
class Dumped:
    """All that one run has printed."""

    files: dict[str, list[tuple[str, Row]]] = field(default_factory=dict)
    """(kind, row) by file, in order."""
    complaints: list[str] = field(default_factory=list)
    """The faults that the tool finds. Lines that belong to a complaint follow it, indented."""

    def rows(self, path: Path | str, kind: str) -> list[Row]:
        """The rows of one kind in one file."""
        return [row for each, row in self.files.get(str(path), []) if each == kind]


def parse(text: str) -> Dumped:
    """Read the output of one run."""
    dumped = Dumped()
    rows: list[tuple[str, Row]] = []
    for line in text.splitlines():
        if line.startswith("Dumping "):
            rows = dumped.files.setdefault(line.removeprefix("Dumping "), [])
        elif _COMPLAINT.match(line) or line.startswith("  "):
            dumped.complaints.append(line)
        elif not _HARMLESS.fullmatch(line):
            rows.append(_row(line))
    return dumped


def _row(line: str) -> tuple[str, Row]:
    for kind, pattern in _KINDS.items():
        found = pattern.fullmatch(line)
        if found is not None:
            return kind, {name: _value(name, text) for name, text in found.groupdict().items()}
    raise AssertionError(f"not understood: {line!r}")


def _value(name: str, text: str | None) -> Any:
    if text is None:
        return None
    if name == "header_keys":
        return text.split(",") if text else []
    if name in ("key", "payload"):
        return json.loads(text) if text.startswith("{") else text
    if text == "OptionalLong.empty":
        return None
    text = re.sub(r"OptionalLong\[(\d+)\]", r"\1", text)
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text
