"""Hypothesis strategies for records and batches, shared by the tests of every room."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from eosin.protocol.records.batch import MAX_SEQUENCE, Compression, NewRecord, build_batch

_content = st.none() | st.binary(max_size=20) | st.integers(60, 300).map(lambda size: bytes(size))
_headers = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3).map(tuple)
codecs = st.sampled_from(Compression)
timestamps = st.integers(0, 2**45)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A batch and what it was built from."""

    records: list[NewRecord]
    arguments: dict[str, Any]
    batch: bytearray


def new_records(min_size: int = 1, max_size: int = 12) -> st.SearchStrategy[list[NewRecord]]:
    return st.lists(
        st.builds(NewRecord, _content, _content, timestamps, _headers), min_size=min_size, max_size=max_size
    )


@st.composite
def built(draw: st.DrawFn, records: st.SearchStrategy[list[NewRecord]] | None = None) -> Drawn:
    """A whole batch as `build_batch` makes them, with or without a producer."""
    drawn = draw(records if records is not None else new_records())
    arguments: dict[str, Any] = {
        "timestamp": draw(timestamps),
        "base_offset": draw(st.integers(0, 2**40)),
        "compression": draw(codecs),
    }
    if draw(st.booleans()):
        arguments |= {
            "producer_id": draw(st.integers(0, 2**50)),
            "producer_epoch": draw(st.integers(0, 2**15 - 1)),
            "base_sequence": draw(st.integers(0, MAX_SEQUENCE)),
            "transactional": draw(st.booleans()),
        }
    return Drawn(drawn, arguments, build_batch(drawn, **arguments))


@st.composite
def mutated(draw: st.DrawFn, original: bytes) -> bytes:
    """`original` with a few bytes changed, inserted, removed, or its end cut off."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 3)):
            case 0 if data:
                data[at] = draw(st.integers(0, 255))
            case 1:
                data[at:at] = draw(st.binary(min_size=1, max_size=4))
            case 2:
                del data[at : at + draw(st.integers(1, 4))]
            case _:
                del data[max(at, 1) :]
    return bytes(data)
