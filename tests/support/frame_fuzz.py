"""A seeded stream of damaged request frames: the same seed gives the same frames on every machine.

`request_frames` makes whole, valid requests of every version of every API from their declarations. `mutations` damages
such frames (or recorded ones) without end. Frames carry no size prefix; `sized` adds it.

    for number, frame in enumerate(islice(mutations(request_frames(seed), seed), 10_000_000)):
        feed(sized(frame))                  # a failure is reported as (seed, number)
"""

import random
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

import construct

from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.layout import Layout, NullableStruct
from eosin.protocol.codegen.nodes import Construct
from eosin.protocol.codegen.text import Blob, Text
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.schemas import DECLARED, schema_of
from eosin.protocol.wire import codec

NAMES = ("", "t", "orders", "tx-a", "group", "__consumer_offsets", "__transaction_state", "ü" * 70, "x" * 300)
NUMBERS = (-1, 0, 1, 2, 100, 127, 128, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF)
WORDS = (
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10",
    b"\xff\xff\xff\xff\xff",
    b"\x7f\xff",
    b"\xff\xff",
)


def sized(frame: bytes) -> bytes:
    """The frame as it goes over a connection."""
    return struct.pack(">i", len(frame)) + frame


def request_frames(seed: int, *, each: int = 3, keys: Iterable[ApiKey] = DECLARED) -> list[bytes]:
    """`each` valid requests of every version of `keys`, filled by chance."""
    chance = random.Random(f"frames-{seed}")
    draw, frames = Draw(chance), []
    for key in sorted(keys):
        schema = schema_of(key)
        assert schema is not None
        for version in schema.versions:
            for correlation_id in range(each):
                request = draw.value(schema.request_layout(version))
                frame = b"".join(codec.encode_request(key, version, correlation_id, "fuzz", request))
                frames.append(frame[4:])
    return frames


def mutations(frames: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Damaged copies of `frames`, without end. One in sixteen is left whole, to reach the states behind a request."""
    chance = random.Random(f"mutations-{seed}")
    while True:
        frame = chance.choice(frames)
        yield damaged(frame, chance, frames) if chance.randrange(16) else frame


def damaged(frame: bytes, chance: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """A damaged copy, some of which have parts of `others`."""
    made = bytearray(frame)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        chance.choice(_DAMAGES)(made, others or (frame,), chance)
    return bytes(made)


# Damages


def _flip_a_bit(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    if frame:
        frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)


def _set_a_byte(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    if frame:
        frame[chance.randrange(len(frame))] = chance.choice(BYTES)


def _overwrite_a_word(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    at, word = chance.randint(0, len(frame)), chance.choice(WORDS)
    frame[at : at + len(word)] = word


def _insert_a_word(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randint(0, len(frame))
    frame[at:at] = chance.choice(WORDS)


def _cut_the_end(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    del frame[chance.randint(0, len(frame)) :]


def _cut_the_middle(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randint(0, len(frame))
    del frame[at : at + chance.randint(1, 8)]


def _repeat_a_part(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    at, size = chance.randint(0, len(frame)), chance.randint(1, 32)
    frame[at:at] = frame[at : at + size] * chance.randint(1, 4)


def _splice_another(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    other = chance.choice(frames)
    frame[chance.randint(0, len(frame)) :] = other[chance.randint(0, len(other)) :]


def _change_the_version(frame: bytearray, frames: Sequence[bytes], chance: random.Random) -> None:
    if len(frame) >= 4:
        frame[3] = chance.randrange(20)


Damage = Callable[[bytearray, Sequence[bytes], random.Random], None]

_DAMAGES: Sequence[Damage] = (
    _flip_a_bit,
    _flip_a_bit,
    _set_a_byte,
    _set_a_byte,
    _overwrite_a_word,
    _overwrite_a_word,
    _insert_a_word,
    _cut_the_end,
    _cut_the_middle,
    _repeat_a_part,
    _splice_another,
    _change_the_version,
)


# Valid values


class Draw:
    """Values of any field, drawn by chance. A field has the name of the schema."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def value(self, node: Construct, name: str = "") -> object:
        """A valid value of a field."""
        chance = self.chance
        match node:
            case Layout():
                values = {field.name: self.value(field.node, field.name) for field in node.plain}
                rare = [field for field in node.tagged if chance.random() < 0.3]
                return node.struct(**values, **{field.name: self.value(field.node, field.name) for field in rare})
            case _ if getattr(node, "nullable", False) and self.flag(name, 0.2):
                return None
            case Text():
                return self.text(name)
            case Blob():
                return _batch(chance) if node.holds_records else chance.randbytes(chance.choice((0, 1, 20, 200)))
            case Array():
                return tuple(self.value(node.element, name) for _ in range(self.length(name)))
            case NullableStruct():
                return None if self.flag(name, 0.3) else self.value(node.subcon, name)
            case construct.Bytes():
                return self.uuid(name)
            case construct.Flag:
                return self.flag(name, 0.5)
            case _:
                assert isinstance(node, construct.FormatField)
                return chance.random() if node.fmtstr == ">d" else _in_range(node, self.number(name))

    def flag(self, name: str, likely: float) -> bool:
        """Of a flag; of a field that may be null, True if it is."""
        return self.chance.random() < likely

    def text(self, name: str) -> str:
        """Of a text."""
        return self.chance.choice(NAMES)

    def uuid(self, name: str) -> bytes:
        """Of a field of 16 bytes."""
        return self.chance.choice((bytes(16), self.chance.randbytes(16)))

    def length(self, name: str) -> int:
        """Of an array."""
        return self.chance.choice((0, 1, 1, 2, 3))

    def number(self, name: str) -> int:
        """Of an integer; what does not fit loses its highest bits."""
        return self.chance.choice(NUMBERS)


def _in_range(node: construct.FormatField, number: int) -> int:
    bits = 8 * node.sizeof()
    number &= (1 << bits) - 1
    signed = node.fmtstr[1].islower()
    return number - (1 << bits) if signed and number >> bits - 1 else number


def _batch(chance: random.Random) -> bytes:
    records = [NewRecord(b"key", b"value" * chance.randrange(20)) for _ in range(chance.randint(1, 3))]
    if chance.random() < 0.5:
        return bytes(build_batch(records, timestamp=1))
    return bytes(
        build_batch(
            records,
            timestamp=1,
            producer_id=chance.choice((0, 1, 1000)),
            producer_epoch=chance.choice((0, 1, 2)),
            base_sequence=chance.choice((0, 1, 5)),
            transactional=chance.random() < 0.5,
        )
    )
