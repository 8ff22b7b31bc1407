"""Rows of Arrow batches as records: byte for byte what is made of each row alone, and where it alone would go."""

import random
from typing import Any

import pytest

from eosin.client.partitioning import murmur2
from eosin.pipeline.common.errors import BadRows
from eosin.pipeline.common.partitioning import partition_of
from eosin.protocol.records.batch import NewRecord, build_batch, build_batch_of_encoded, iter_records

pytest.importorskip("numpy")
pyarrow = pytest.importorskip("pyarrow")

from eosin.pipeline.sink.row_encoder import BATCH_BYTES, EncodedBatch, RowEncoder  # noqa: E402

PARTITIONS = 5
HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
Row = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def drawn(seed: int, count: int) -> dict[str, list[Any]]:
    """Columns with nulls, empty values, lengths around the borders of varints, headers and wishes for partitions."""
    chance = random.Random(seed)
    lengths = (0, 1, 2, 3, 4, 5, 62, 63, 64, 65, 300)

    def some() -> bytes | None:
        return None if chance.random() < 0.2 else chance.randbytes(chance.choice(lengths))

    def headers() -> list[dict[str, Any]] | None:
        names = ("a", "ü" * 70)
        return chance.choice((None, [], [{"key": chance.choice(names), "value": some()}] * chance.randrange(3)))

    return {
        "key": [some() for _ in range(count)],
        "value": [some() for _ in range(count)],
        "headers": [headers() for _ in range(count)],
        "partition": [chance.randrange(PARTITIONS) if chance.random() < 0.5 else None for _ in range(count)],
    }


def batch(columns: dict[str, list[Any]]) -> Any:
    types = {"key": pyarrow.binary(), "value": pyarrow.binary(), "headers": HEADERS, "partition": pyarrow.int32()}
    return pyarrow.RecordBatch.from_pydict({name: pyarrow.array(each, types[name]) for name, each in columns.items()})


def encoded(rows: Any, *, partitions: int = PARTITIONS, pieces: int = 1) -> list[EncodedBatch]:
    encoder = RowEncoder("topic", partitions)
    size = -(-rows.num_rows // pieces)
    found = [each for start in range(0, rows.num_rows, size) for each in encoder.add(rows.slice(start, size))]
    return found + encoder.finish()


def records(batches: list[EncodedBatch]) -> dict[int, list[Row]]:
    """What is in each partition. Each batch must be the one that its records, one by one, are built into."""
    found: dict[int, list[Row]] = {}
    for each in batches:
        built = build_batch_of_encoded(each.payload, count=each.rows, timestamp=7)
        there = [(record.key, record.value, record.headers) for record in iter_records(built)]
        assert built == build_batch([NewRecord(key, value, None, more) for key, value, more in there], timestamp=7)
        found.setdefault(each.partition, []).extend(there)
    return found


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("left_out", [(), ("key",), ("headers",), ("partition",), ("key", "headers", "partition")])
def test_each_row_is_encoded_and_placed_as_if_it_were_alone(left_out: tuple[str, ...], pieces: int) -> None:
    drawn_columns = drawn(len(left_out), 700)
    columns = {name: each for name, each in drawn_columns.items() if name not in left_out}
    nothing = [None] * 700
    expected: dict[int, list[Row]] = {}
    for key, value, headers, wish in zip(
        *(columns.get(name, nothing) for name in ("key", "value", "headers", "partition")), strict=True
    ):
        place = partition_of(key, value, PARTITIONS) if wish is None else wish
        expected.setdefault(place, []).append((key, value, tuple((e["key"], e["value"]) for e in headers or ())))
    assert records(encoded(batch(columns), pieces=pieces)) == expected


def test_text_is_written_as_utf_8() -> None:
    rows = pyarrow.RecordBatch.from_pydict({"key": ["ä", None], "value": [None, "ö"]})
    assert records(encoded(rows, partitions=1)) == {0: [("ä".encode(), None, ()), (None, "ö".encode(), ())]}


def test_a_batch_stays_below_what_brokers_take_unless_one_record_is_larger() -> None:
    large = BATCH_BYTES + 1
    values = [b"x" * size for size in (10, 500_000, 200_000, 400_000, large, 20, 30)]
    found = encoded(batch({"value": values, "partition": [2] * len(values)}))
    assert [value for _, value, _ in records(found)[2]] == values
    assert [each.rows for each in found if len(each.payload) > BATCH_BYTES] == [1]
    assert len(found) <= 5


def test_rows_are_kept_until_there_is_enough_for_a_batch() -> None:
    encoder = RowEncoder("topic", 1)
    rows = batch({"value": [b"x" * 1000] * 100})
    taken = [len(encoder.add(rows)) for _ in range(6)]
    assert taken == [0, 0, 0, 0, 0, 1]
    assert encoder.finish() == []


def test_a_row_for_a_missing_partition_is_refused() -> None:
    for wish in (-1, PARTITIONS):
        with pytest.raises(BadRows, match=f"a row is for partition {wish} of topic topic, which has {PARTITIONS}"):
            encoded(batch({"value": [b"x"] * 30, "partition": [0] * 29 + [wish]}))


def test_few_values_that_are_longer_than_all_others_have_the_same_hash_as_alone() -> None:
    import numpy

    from eosin.pipeline.common.partitioning import murmur2_of_each

    chance = random.Random(1)
    values = [chance.randbytes(each) for each in [*range(40), 41, 99, 1000, 4003]]
    starts = numpy.cumsum([0, *map(len, values)])
    found = murmur2_of_each(b"".join(values), starts[:-1], numpy.diff(starts))
    assert found.tolist() == [murmur2(each) for each in values]
