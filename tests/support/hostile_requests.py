"""Large requests of every API, derived from the declarations: all bytes that the limits allow, in elements of a kind.

Each array of a request in turn is the large one: few topics of many partitions, many topics of one, many settings of
one topic. The rest of the request names what exists, so that the broker does not refuse it before it has looked at the
array. The same `Hostile` makes the same frame for the same `Existing` on every machine.

    for hostile in hostiles(ApiKey.DELETE_TOPICS, 6, 100_000):
        peer.transport.feed(hostile.frame(existing))
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, NamedTuple

import construct
from batches import data
from frame_fuzz import sized

from eosin.broker.handlers.registry import BY_KEY
from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.layout import Layout, NullableStruct
from eosin.protocol.codegen.nodes import Construct
from eosin.protocol.codegen.text import Blob, Text
from eosin.protocol.codegen.varints import uvarint
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ZERO_UUID
from eosin.protocol.schemas import schema_of
from eosin.protocol.wire.codec import MOST_ELEMENTS, encode_request

EXISTING: Final = 25
"""So many topics, groups and transactional ids there are; each topic has `PARTITIONS`."""
PARTITIONS: Final = 3
MINE: Final = "mine-"
"""A prefix on which one of those who ask has every right."""
LONGEST: Final = 32_767
MOST_BYTES: Final = 16 << 20
_ROOM: Final = 4096
"""For the header, and what surrounds the array."""


class Group(NamedTuple):
    """A group of a newer kind, with its only member; of a group that is empty, the one that has left."""

    name: str
    member_id: str = ""
    member_epoch: int = 0


@dataclass(slots=True)
class Existing:
    """The things that the broker has, as far as a request has to name them."""

    topic_ids: tuple[bytes, ...] = (bytes(16),)
    producer_id: int = 0
    producer_epoch: int = 0
    member_id: str = ""
    generation_id: int = -1
    groups: Mapping[str, Group] = field(default_factory=dict)
    """By a part of the names of the APIs that they are asked with."""
    numbers: dict[str, int] = field(init=False)
    texts: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        self.numbers |= {f"v3_and_below_{name}": number for name, number in self.numbers.items()}
        self.numbers |= dict.fromkeys(("generation_id", "generation_id_or_member_epoch"), self.generation_id)
        self.texts = {"member_id": self.member_id}

    def of(self, hostile: "Hostile") -> "Existing":
        """The same for one request: it names the group of its kind, if there is one."""
        group = next((each for part, each in self.groups.items() if part in hostile.key.name), None)
        if group is None:
            return self
        joins = hostile.array.startswith("topology")  # which nobody else says
        made = Existing(self.topic_ids, member_id=group.member_id)
        made.texts |= dict.fromkeys(("group_id", "group_ids", "groups.group_id"), group.name)
        made.numbers["member_epoch"] = 0 if joins else group.member_epoch
        made.numbers["share_session_epoch"] = int(needs_session(hostile))
        return made


def needs_session(hostile: "Hostile") -> bool:
    """True for a request of a share session that is open: others open one."""
    acknowledges = "acknowledgement_batches" in hostile.array or "forgotten" in hostile.array
    return hostile.key is ApiKey.SHARE_ACKNOWLEDGE or (hostile.key is ApiKey.SHARE_FETCH and acknowledges)


def existing_name(number: int) -> str:
    """Of a topic, a group and a transactional id."""
    return f"item-{number % EXISTING}"


# Kinds of elements


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of elements in the large array: they are numbered from 0 on."""

    text: Callable[[int], str | None]
    number: Callable[[int], int]
    topic: Callable[[int, tuple[bytes, ...]], bytes]
    """The id of a topic."""
    element_bytes: int = 0
    """Of a text; 0 for short ones."""
    known_settings: bool = False
    """True if names of settings and the like exist, too."""
    nulls: bool = False
    """True if every value is null that may be; the rest exists."""


def _unknown_id(number: int, ids: tuple[bytes, ...]) -> bytes:
    return (number + 1).to_bytes(16, "big")


def _known_id(number: int, ids: tuple[bytes, ...]) -> bytes:
    return ids[number % len(ids)]


def _one_id(number: int, ids: tuple[bytes, ...]) -> bytes:
    return ids[0]


def _long(number: int) -> str:
    return f"{number:07}" + "x" * (LONGEST - 7)


KINDS: Final[Mapping[str, Kind]] = {
    "unknown": Kind(lambda number: f"n{number}", lambda number: number, _unknown_id),
    "existing": Kind(existing_name, lambda number: number % PARTITIONS, _known_id, known_settings=True),
    "the same": Kind(lambda number: existing_name(0), lambda number: 0, _one_id, known_settings=True),
    "of a prefix": Kind(lambda number: f"{MINE}{number}", lambda number: number, _unknown_id),
    "empty": Kind(lambda number: "", lambda number: -1, lambda number, ids: bytes(16)),
    "null": Kind(existing_name, lambda number: 0, _known_id, nulls=True),
    "long": Kind(_long, lambda number: number, _unknown_id, element_bytes=LONGEST),
}
"""By their names. Where the array has no text, `long` is `unknown`."""
TAGS: Final = "tags"
"""Not elements, but unknown tagged fields: after the header, or at the end."""
NOISE: Final = "noise"
"""Random bytes behind a valid header."""
SCALARS: Final = "scalars"
"""No large array, but each text and each field of bytes is as long as it may be."""


# Values of fields outside of the large array, and of those whose meaning a number or a name has to hit

_NUMBERS: Final[Mapping[str, int]] = {
    **{"acks": -1, "timeout_ms": 1000, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "max_records": 100},
    **{"isolation_level": 0, "session_id": 0, "session_epoch": 0, "share_session_epoch": 0, "batch_size": 100},
    **{"replica_id": -1, "replica_epoch": -1, "current_leader_epoch": -1, "last_fetched_epoch": -1, "leader_epoch": 0},
    **{"fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1000, "high_watermark": -1, "offset": 0},
    **{"timestamp": -1, "committed_leader_epoch": -1, "key_type": 0, "session_timeout_ms": 30_000},
    **{"rebalance_timeout_ms": 30_000, "retention_time_ms": -1, "num_partitions": 1, "replication_factor": 1},
    **{"count": PARTITIONS + 1, "resource_type": 2, "resource_types": 2, "resource_type_filter": 2},
    **{"resource_pattern_type": 3, "pattern_type_filter": 3, "operation": 3, "permission_type": 3},
    **{"config_operation": 0, "election_type": 0, "match_type": 0, "mechanism": 1, "iterations": 4096},
    **{"max_version_level": 2, "upgrade_type": 1, "transaction_version": 0, "coordinator_epoch": 0, "member_epoch": 0},
    **{"transaction_timeout_ms": 60_000, "broker_ids": 1, "replicas": 1, "response_partition_limit": 2000},
    **{"duration_filter": -1, "partitions.replication_factor": 1, "endpoint_type": 1, "epoch": 0},
}
"""By the name of the field: they are the same in all elements."""
_TEXTS: Final[Mapping[str, str | None]] = {
    **{
        "instance_id": None,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "host": "*",
    },
    **{"principal": "User:somebody", "principal_filter": None, "host_filter": None, "mechanism": "PLAIN"},
    **{"committed_metadata": "", "value": "100000", "reason": None, "transactional_id_pattern": None, "rack_id": ""},
    **{"path": "/nowhere", "cluster_id": None, "subscribed_topic_regex": None, "server_assignor": None},
}
_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("configs.name", "configuration_keys"), ("retention.ms", "segment.bytes", "retention.bytes")),
    "protocols.name": ("range", "roundrobin"),
    "states_filter": ("Stable", "Empty", "Dead"),
    "types_filter": ("classic", "consumer"),
    "state_filters": ("Ongoing", "Empty"),
    "feature_updates.feature": ("transaction.version",),
    **dict.fromkeys(("components.entity_type", "entity.entity_type"), ("user", "client-id")),
    "ops.key": ("consumer_byte_rate", "producer_byte_rate", "request_percentage"),
}
"""By the end of the path: names out of a list that the broker knows."""
_EMPTY: Final = frozenset(
    {
        *("assignments", "forgotten_topics_data", "states_filter", "types_filter", "cursor", "topology"),
        *("active_tasks", "standby_tasks", "warmup_tasks", "acknowledgement_batches", "copartition_groups"),
        *("source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics"),
    }
)
"""Arrays that would contradict others unless they are the large one."""


class Hostile(NamedTuple):
    """A frame by what it is made of: its bytes are too many to be shown."""

    key: ApiKey
    version: int
    array: str
    """The path of the large array; for `TAGS` and the like, where they are."""
    kind: str
    count: int
    seed: int = 0
    """For `NOISE`, and for the flags of the request."""

    def __str__(self) -> str:
        return f"{self.key.name} v{self.version}, {self.count} {self.kind} in {self.array or 'it'}, seed {self.seed}"

    def frame(self, existing: Existing) -> bytes:
        """The bytes, with their size."""
        existing = existing.of(self)
        if self.kind == NOISE:
            return sized(_empty_request(self) + random.Random(f"{self}").randbytes(self.count))
        return _with_tags(self, existing) if self.kind == TAGS else _encoded(self, existing)


def hostiles(
    key: ApiKey, version: int, count: int, *, most_bytes: int = MOST_BYTES, seed: int = 0
) -> Iterator[Hostile]:
    """All of this API: each array of each kind, with `count` elements or as many as so many bytes have room for."""
    for array, kind in _choices(key, version):
        yield Hostile(key, version, array, kind, _fitting(key, version, array, kind, count, most_bytes - _ROOM), seed)


def drawn(seed: int, keys: Sequence[ApiKey]) -> Hostile:
    """One of any of these APIs, of any served version and any size."""
    chance = random.Random(f"hostile-{seed}")
    key = chance.choice(keys)
    version = chance.choice(BY_KEY[key].versions)
    array, kind = chance.choice(_choices(key, version))
    count = int(MOST_ELEMENTS / 10 ** chance.uniform(0, 3))
    return Hostile(key, version, array, kind, _fitting(key, version, array, kind, count, MOST_BYTES - _ROOM), seed)


def _choices(key: ApiKey, version: int) -> list[tuple[str, str]]:
    """The arrays of a request with the kinds of each, and what else may be large."""
    schema = schema_of(key)
    assert schema is not None
    of_arrays = list(product(_arrays(schema.request_layout(version)), KINDS))
    return [*of_arrays, ("", SCALARS), ("", NOISE), *((place, TAGS) for place in _tagged(schema.is_flexible(version)))]


def _tagged(is_flexible: bool) -> tuple[str, ...]:
    return ("header", "body") if is_flexible else ()


def _fitting(key: ApiKey, version: int, array: str, kind: str, count: int, room: int) -> int:
    """`count`, or so many as fit into `room` bytes: elements, tags or bytes."""
    if kind not in KINDS:
        return {SCALARS: min(room // 4, 1 << 20), NOISE: min(room, 8 * count), TAGS: min(count, room // 6)}[kind]
    few, more = (len(Hostile(key, version, array, kind, number).frame(Existing())) for number in (20, 40))
    return min(count, MOST_ELEMENTS - 100, int(room / max(1, (more - few) / 20)))


# Arrays


def _arrays(node: Construct, path: str = "") -> Iterator[str]:
    """The paths of all arrays, outer ones first."""
    match node:
        case Layout():
            for each in (*node.plain, *node.tagged):
                yield from _arrays(each.node, f"{path}.{each.name}" if path else each.name)
        case NullableStruct():
            yield from _arrays(node.subcon, path)
        case Array():
            yield path
            yield from _arrays(node.element, path)
        case _:
            pass


# Requests

Maker = Callable[[int], Any]
"""The value of a field in the element of this number."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The request to make."""

    array: str
    kind: Kind
    count: int
    existing: Existing
    flag: bool


def _request(layout: Layout, array: str, kind: Kind, count: int, existing: Existing, flag: bool) -> Any:
    return _maker(layout, "", _Wanted(array, kind, count, existing, flag), KINDS["existing"])(0)


def _maker(node: Construct, path: str, wanted: _Wanted, kind: Kind) -> Maker:
    """The maker of the value of `node`; `kind` is that of the element in which it stands."""
    match node:
        case Layout():
            return _struct(node, path, wanted, kind)
        case NullableStruct():
            return _always(None) if _is_empty(path, wanted) else _maker(node.subcon, path, wanted, kind)
        case Array():
            return _array(node, path, wanted, kind)
        case Text():
            return _text(node, path, wanted, kind)
        case Blob():
            made = data() if node.holds_records else b"x" * (wanted.count if wanted.array == SCALARS else 32)
            return _always(None if kind.nulls and node.nullable else made)
        case construct.Bytes():
            return lambda number: kind.topic(number, wanted.existing.topic_ids)
        case construct.Flag:
            return _always(wanted.flag)
        case _:
            return _number(node, path, wanted, kind)


def _always(value: Any) -> Maker:
    return lambda number: value


def _struct(node: Layout, path: str, wanted: _Wanted, kind: Kind) -> Maker:
    makers = {
        each.name: _maker(each.node, f"{path}.{each.name}" if path else each.name, wanted, kind)
        for each in (*node.plain, *(tagged for tagged in node.tagged if wanted.array.startswith(tagged.name)))
    }
    if makers.keys() >= {"name", "topic_id"} and not kind.nulls:
        makers["topic_id"] = _always(ZERO_UUID)  # a topic goes by one of the two
    struct, names, made_by = node.struct, tuple(makers), tuple(makers.values())
    return lambda number: struct(**{name: make(number) for name, make in zip(names, made_by, strict=True)})


def _array(node: Array, path: str, wanted: _Wanted, kind: Kind) -> Maker:
    if path == wanted.array:
        make, count = _maker(node.element, path, wanted, wanted.kind), wanted.count
        return lambda number: tuple(map(make, range(count)))
    if kind.nulls and node.nullable:
        return _always(None)
    if _is_empty(path, wanted):
        return _always(())
    make = _maker(node.element, path, wanted, KINDS["existing"])
    return lambda number: (make(0),)


def _is_empty(path: str, wanted: _Wanted) -> bool:
    return path.rpartition(".")[2] in _EMPTY and not wanted.array.startswith(path)


def _text(node: Text, path: str, wanted: _Wanted, kind: Kind) -> Maker:
    name = path.rpartition(".")[2]
    nullable = node.nullable
    if wanted.array == SCALARS:
        return _always("a" * LONGEST)
    settings = next((each for end, each in _SETTINGS.items() if f".{path}".endswith(f".{end}")), None)
    if settings is not None and kind.known_settings:
        return lambda number: settings[number % len(settings)]
    known = wanted.existing.texts if kind.known_settings else {}
    if path in known or (name in _TEXTS and not kind.nulls):
        fixed = known[path] if path in known else _TEXTS[name]
        return _always(fixed if fixed is not None or nullable else "")
    if kind.nulls:
        return _always(None if nullable else existing_name(0))
    return kind.text


def _number(node: Construct, path: str, wanted: _Wanted, kind: Kind) -> Maker:
    assert isinstance(node, construct.FormatField)
    name = path.rpartition(".")[2]
    if node.fmtstr == ">d":
        return _always(1000.0)
    if "assignments" in wanted.array and path in ("topics.num_partitions", "topics.replication_factor"):
        return _always(-1)
    if name in wanted.existing.numbers and "." not in path:
        return _always(wanted.existing.numbers[name])
    if name in _NUMBERS and path != wanted.array:
        return _always(_NUMBERS[name])
    bits = 8 * node.sizeof()
    if bits >= 32:
        return kind.number
    most = 1 << (bits - 1)
    number_of = kind.number
    return lambda number: number_of(number) % most


# Frames


def _encoded(hostile: Hostile, existing: Existing) -> bytes:
    key, version, array, kind, count, seed = hostile
    schema = schema_of(key)
    assert schema is not None
    flag = bool(seed) and random.Random(f"{hostile}").random() < 0.5
    if kind == SCALARS:
        request = _request(schema.request_layout(version), SCALARS, KINDS["existing"], count, existing, flag)
    else:
        request = _request(schema.request_layout(version), array, KINDS[kind], count, existing, flag)
    return b"".join(encode_request(key, version, 1, "hostile", request))


def _empty_request(hostile: Hostile) -> bytes:
    """The header alone."""
    schema = schema_of(hostile.key)
    assert schema is not None
    header = hostile.key.to_bytes(2, "big") + hostile.version.to_bytes(2, "big") + (1).to_bytes(4, "big") + b"\xff\xff"
    return header + b"\0" * schema.is_flexible(hostile.version)


def _with_tags(hostile: Hostile, existing: Existing) -> bytes:
    """A sound request with as many tagged fields as told that nobody knows, each of one byte."""
    whole = _encoded(hostile._replace(kind="existing", array="", count=0), existing)[4:]
    header = len(_empty_request(hostile))
    body = whole[header + len("hostile") :]
    tags = (uvarint(number) + b"\1x" for number in range(100, 100 + hostile.count))
    section = uvarint(hostile.count) + b"".join(tags)
    if hostile.array == "header":
        return sized(_empty_request(hostile)[:-1] + section + body)
    assert body.endswith(b"\0")
    return sized(_empty_request(hostile) + body[:-1] + section)
