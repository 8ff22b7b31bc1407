"""Requests that a broker could get, and what is left of them after an accident.

Everything follows from the given generator, so a seed replays a run.
"""

import random
import types
import typing
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from eosin.broker.api import Api
from eosin.protocol.codec import encode_request
from eosin.protocol.keys import ApiKey
from eosin.protocol.records import NewRecord, build_batch
from eosin.protocol.schemas import schema_of
from eosin.protocol.types import EncodeError, Message

_NAMES: Final = ("orders", "payments", "g", "m-1", "tx-a", "", "__consumer_offsets", "a.b", "PLAINTEXT", "retention.ms")
_NUMBERS: Final = (0, 1, 2, 3, -1, 100, 1000, 2**15 - 1, 2**31 - 1, -(2**31))
_INTERESTING: Final = (0x00, 0x01, 0x7F, 0x80, 0xFF)
_MAX_INSERTED: Final = 300


def sample_request(api: Api, version: int, chance: random.Random) -> Message:
    """A request that decodes, with plausible and less plausible content."""
    schema = schema_of(api.key)
    assert schema is not None
    return _message(schema.request(version).struct, chance, api.key)


def sample_frame(api: Api, version: int, chance: random.Random) -> bytes:
    """The same as a frame with its size; a message that does not fit its version becomes an empty frame."""
    message = sample_request(api, version, chance)
    try:
        return b"".join(encode_request(api.key, version, chance.getrandbits(31), "fuzz", message))
    except EncodeError:
        return b"\x00\x00\x00\x00"


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """`frame` with one to four things done to it. Mostly its size is put right again, to get past the framing."""
    body = bytearray(frame[4:])
    for _ in range(chance.randint(1, 4)):
        _MUTATIONS[chance.randrange(len(_MUTATIONS))](body, chance)
    if chance.random() < 0.02:
        return chance.randbytes(4) + body
    return len(body).to_bytes(4, "big") + body


class FrameSource:
    """An endless row of frames for a set of APIs, most of them mutated."""

    def __init__(self, apis: Sequence[Api], chance: random.Random, *, samples_per_version: int = 3) -> None:
        self._chance = chance
        self._samples = [
            sample_frame(api, version, chance)
            for api in apis
            for version in api.versions
            for _ in range(samples_per_version)
        ]

    def next_frame(self) -> bytes:
        """The next frame, with its size in front."""
        frame = self._samples[self._chance.randrange(len(self._samples))]
        return mutated(frame, self._chance) if self._chance.random() < 0.9 else frame


def _flip_bit(body: bytearray, chance: random.Random) -> None:
    if body:
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)


def _set_byte(body: bytearray, chance: random.Random) -> None:
    if body:
        body[chance.randrange(len(body))] = _INTERESTING[chance.randrange(len(_INTERESTING))]


def _set_word(body: bytearray, chance: random.Random) -> None:
    if len(body) >= 4:
        start = chance.randrange(len(body) - 3)
        number = _NUMBERS[chance.randrange(len(_NUMBERS))]
        body[start : start + 4] = number.to_bytes(4, "big", signed=True)


def _cut(body: bytearray, chance: random.Random) -> None:
    if body:
        del body[chance.randrange(len(body)) :]


def _remove(body: bytearray, chance: random.Random) -> None:
    if body:
        start = chance.randrange(len(body))
        del body[start : start + chance.randint(1, 8)]


def _insert(body: bytearray, chance: random.Random) -> None:
    start = chance.randint(0, len(body))
    body[start:start] = chance.randbytes(chance.randint(1, 8 if chance.random() < 0.9 else _MAX_INSERTED))


def _repeat(body: bytearray, chance: random.Random) -> None:
    if body:
        start = chance.randrange(len(body))
        piece = body[start : start + chance.randint(1, 32)]
        body[start:start] = piece * chance.randint(1, 4)


def _other_version(body: bytearray, chance: random.Random) -> None:
    if len(body) >= 4:
        body[2:4] = chance.randint(-1, 18).to_bytes(2, "big", signed=True)


def _other_key(body: bytearray, chance: random.Random) -> None:
    if len(body) >= 2:
        body[0:2] = chance.randint(-1, 80).to_bytes(2, "big", signed=True)


_MUTATIONS: Final = (
    _flip_bit,
    _flip_bit,
    _set_byte,
    _set_byte,
    _set_word,
    _set_word,
    _cut,
    _remove,
    _insert,
    _repeat,
    _other_version,
    _other_key,
)


def _message(kind: type[Message], chance: random.Random, key: ApiKey) -> Message:
    hints = _hints(kind)
    return kind(
        **{each.name: _value(each.name, hints[each.name], chance, key) for each in msgspec.structs.fields(kind)}
    )


_HINTS: Final[dict[type, dict[str, Any]]] = {}


def _hints(kind: type) -> dict[str, Any]:
    if kind not in _HINTS:
        _HINTS[kind] = typing.get_type_hints(kind)
    return _HINTS[kind]


def _value(name: str, hint: Any, chance: random.Random, key: ApiKey) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if memoryview in options:
        return _records(chance) if key is ApiKey.PRODUCE else b""
    if type(None) in options:
        if chance.random() < 0.2:
            return None
        options = tuple(option for option in options if option is not type(None))
    kind = options[0]
    if typing.get_origin(kind) is tuple:
        item = typing.get_args(kind)[0]
        return tuple(_value(name, item, chance, key) for _ in range(chance.choice((0, 1, 1, 2))))
    if kind is bool:
        return chance.random() < 0.5
    if kind is int:
        return _number(name, chance)
    if kind is float:
        return chance.random()
    if kind is str:
        return chance.choice(_NAMES)
    if kind is bytes:
        return bytes(16) if name.endswith("_id") else chance.randbytes(chance.randint(0, 20))
    return _message(kind, chance, key)


def _number(name: str, chance: random.Random) -> int:
    if name.endswith("_ms"):
        # Waits are part of the protocol, but nobody wants to sit through them here.
        return chance.choice((0, 1, 10))
    return chance.choice((0, 0, 1, 1, 2, -1, 5, 100))


def _records(chance: random.Random) -> bytes | None:
    records = [NewRecord(b"k", chance.randbytes(chance.randint(0, 40))) for _ in range(chance.randint(1, 3))]
    return bytes(
        build_batch(
            records,
            timestamp=1_700_000_000_000,
            producer_id=chance.choice((-1, 1, 1000)),
            producer_epoch=chance.choice((-1, 0, 1)),
            base_sequence=chance.choice((-1, 0, 1)),
            transactional=chance.random() < 0.3,
        )
    )
