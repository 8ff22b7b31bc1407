"""Values of the control API, beside those of the lab itself. Times are in ms, bytes are text or base64."""

import base64
import binascii
from typing import Any, Final

import msgspec

from eosin.lab.common.errors import LabError
from eosin.lab.common.values import LabMember, PartitionName, ReadRecord, TransactionSeen


class Base64(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are no UTF-8."""

    base64: str


Bytes = str | Base64 | None
"""A key or a value: text for UTF-8, base64 for other bytes, null for none."""


def bytes_in(value: Bytes) -> bytes | None:
    """The bytes that somebody has written. Raises LabError."""
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    try:
        return base64.b64decode(value.base64, validate=True)
    except (binascii.Error, ValueError):
        raise LabError(f"this is no base64: {value.base64!r}") from None


def bytes_out(value: bytes | None) -> Bytes:
    """Bytes as JSON has them."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Base64(base64.b64encode(value).decode())


class ErrorSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refusal."""

    code: str
    """A word for programs, as `unknown_topic`."""
    message: str
    """A sentence for people."""
    field: str = ""
    """The field of the request that is wrong, as `match.api`."""
    findings: tuple[dict[str, Any], ...] = ()
    """The reasons, where a verdict has several."""


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every answer that is no success."""

    error: ErrorSeen


class LabSeen(msgspec.Struct, frozen=True):
    """The broker at this moment."""

    version: str
    bootstrap: str
    is_up: bool
    seed: int
    now_ms: int
    """Its own time, in ms since the epoch."""
    clock_rate: float
    """0 while its clock stands still."""
    durability: str
    disk: str
    behaviour: str
    nodes: int


NOT_READY: Final = 503
"""The HTTP status of a `Ready` that is not so."""


class Ready(msgspec.Struct, frozen=True):
    """The answer for whoever waits for a start."""

    ready: bool


class CarriedOut(msgspec.Struct, frozen=True):
    """It is done."""

    done: bool = True


class Advance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A jump ahead: by the sum of the times, or to a moment."""

    ms: float = 0
    seconds: float = 0
    minutes: float = 0
    hours: float = 0
    days: float = 0
    to_ms: int | None = None
    """In ms since the epoch: until everything has happened that is due then."""
    sessions: bool = False
    """True if members of groups are found dead by it."""


class Flow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pace of a clock."""

    rate: float = 1.0


class Jump(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A correction of the time of day."""

    ms: int


class Count(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The number that is wanted."""

    count: int = 20


class AddressForClients(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The address by which clients reach the broker."""

    address: str
    """HOST:PORT."""
    listener: str = "PLAINTEXT"
    """PLAINTEXT is node 1; the others have NODE2, NODE3 and so on."""


class Crash(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An end without a stop."""

    power: bool = False
    """True for a loss of power: what was not synced may be lost, or torn."""
    restart: bool = True


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An end, and a start with these settings beside those that it had."""

    clean: bool = True
    settings: dict[str, Any] = {}


class NewSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A start with these settings beside those that it had."""

    settings: dict[str, Any] = {}


class Settle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wait for rest."""

    quiet_ms: float = 0
    timeout_ms: float = 10_000


class SnapshotSeen(msgspec.Struct, frozen=True):
    """A snapshot that is kept."""

    id: str
    now_ms: int
    """The broker's time when it was taken, in ms since the epoch."""
    bytes: int


class SnapshotNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A snapshot by its id."""

    snapshot: str


class FiredQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wait for a rule to fire."""

    wait_fired: int = 0
    timeout_ms: int = 10_000


class TopicToCreate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic to create. Configs have Kafka's names."""

    name: str
    partitions: int = 1
    configs: dict[str, Any] = {}


class FeatureLevels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Features by name, as `{"share.version": 1}`, and the level that each is to have."""

    levels: dict[str, int]


class TopicNames(msgspec.Struct, frozen=True):
    """The topics, without internal ones."""

    topics: list[str]


class RecordQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_offset": "from"}):
    """The records that are wanted."""

    isolation: str = "read_committed"
    partition: int | None = None
    from_offset: int = 0


class PartitionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one partition, or of all."""

    partition: int | None = None


class RecordInJson(msgspec.Struct, frozen=True):
    """A record as a reader gets it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Bytes
    value: Bytes
    headers: tuple[tuple[str, Bytes], ...]

    @classmethod
    def of(cls, record: ReadRecord) -> "RecordInJson":
        """The same record."""
        headers = tuple((name, bytes_out(value)) for name, value in record.headers)
        return cls(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            bytes_out(record.key),
            bytes_out(record.value),
            headers,
        )


class NewRecords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Records to write, in one transaction if an id is named."""

    values: list[Bytes]
    key: Bytes = None
    headers: dict[str, Bytes] = {}
    timestamp: int | None = None
    partition: int | None = None
    transactional_id: str | None = None
    commit: bool = True
    """False leaves the transaction open."""


class Offsets(msgspec.Struct, frozen=True):
    """The offsets of records that were written."""

    offsets: list[int]


class TransactionNow(msgspec.Struct, frozen=True):
    """One transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    deadline: int | None
    """The time at which it is aborted unless it ends, in ms since the epoch."""
    partitions: tuple[PartitionName, ...]
    outcomes: list[str]
    """`commit`, `abort`, `timeout`, `fenced`, `operator` or `expired`, in order; the last may be `open`."""

    @classmethod
    def of(cls, seen: TransactionSeen, outcomes: list[str]) -> "TransactionNow":
        """The same, with its outcomes."""
        return cls(
            seen.transactional_id,
            seen.state,
            seen.producer_id,
            seen.producer_epoch,
            seen.deadline,
            seen.partitions,
            outcomes,
        )


class InstanceNow(msgspec.Struct, frozen=True):
    """A zombie or a successor, by the id for its further steps."""

    id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[PartitionName, ...]


class InstanceStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step of a zombie or a successor."""

    step: str
    """`write`, `send_offsets`, `commit`, `abort` or `init`."""
    topic: str = ""
    partition: int = 0
    values: list[Bytes] = []
    group: str = ""
    offset: int = 0


class CodeSeen(msgspec.Struct, frozen=True):
    """The name of the broker's answer: `NONE` if it was carried out."""

    code: str


class GroupOffsetSeen(msgspec.Struct, frozen=True):
    """The position of a group in one partition."""

    topic: str
    partition: int
    committed: int | None
    pending: int | None
    """Held by an open transaction."""


class GroupNow(msgspec.Struct, frozen=True):
    """A group of any kind."""

    group: str
    state: str
    generation: int | None
    """The epoch of a group that is not a classic one."""
    members: list[LabMember]
    lag: int
    offsets: list[GroupOffsetSeen]


class GroupQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic whose offsets are wanted."""

    topic: str | None = None


class Kick(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A member; without a name all of them."""

    member: str | None = None


class Explanation(msgspec.Struct, frozen=True):
    """The reason for which something is as it is."""

    text: str


class Partition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Clients that are cut off, by patterns."""

    client_id: str | None = None
    software: str | None = None
    peer: str | None = None
    listener: str | None = None
    refuse: bool = False
    """True for new connections that are reset."""


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A delay of each request."""

    ms: float
    jitter: float = 0


class Bandwidth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bytes that pass in each direction of each connection; null for any number."""

    bytes_per_s: float | None


class ConnectionCount(msgspec.Struct, frozen=True):
    """The number of connections that it was about."""

    connections: int


class DiskFull(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The room that is left."""

    after_bytes: int = 0


class DiskFail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls that fail."""

    call: str
    path: str = ""
    error: str = "EIO"
    times: int | None = 1
    """null for all."""


class DiskTear(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An append of which a part is left."""

    path: str
    keep: int


class DiskSlow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Calls that take long."""

    call: str = "sync"
    ms: float = 0
    jitter: float = 0


class DiskStop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The call at which the broker crashes, 1 being the next."""

    call: int
