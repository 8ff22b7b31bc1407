"""What a source may be told, how far a batch goes, and a range read without Spark."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from broker_process import BrokerProcess
from read_ranges import records_of
from topic_load import TopicLoad

from eosin.pipeline.common.errors import ConflictingSettings, DataLoss
from eosin.pipeline.source.log_offsets import limited
from eosin.pipeline.source.options import SourceOptions, from_json, recreated_topics, to_json, topic_ids_of
from eosin.pipeline.source.range_reader import RangeReader
from eosin.protocol.names import IsolationLevel, TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))


def test_without_a_limit_everything_is_taken() -> None:
    assert limited({A: 5, B: 0}, {A: 9, B: 3}, None) == {A: 9, B: 3}


def test_a_limit_is_shared_in_proportion_to_the_lags_and_used_up() -> None:
    assert limited({A: 0, B: 0}, {A: 90, B: 10}, 10) == {A: 9, B: 1}
    assert limited({A: 0, B: 0, C: 7}, {A: 1, B: 1000, C: 7}, 1) == {A: 0, B: 1, C: 7}


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 50])
def test_any_limit_reads_everything_in_the_end_and_is_never_exceeded(rows: int) -> None:
    position, latest = {A: 0, B: 3, C: 0}, {A: 40, B: 4, C: 7}
    rounds = 0
    while position != latest:
        following = limited(position, latest, rows)
        assert 0 < sum(following.values()) - sum(position.values()) <= rows
        assert all(position[each] <= following[each] <= latest[each] for each in position)
        position, rounds = following, rounds + 1
    assert rounds == -(-48 // rows)


def test_a_partition_that_has_shrunk_is_never_planned_backwards() -> None:
    assert limited({A: 9, B: 0}, {A: 4, B: 2}, 1) == {A: 9, B: 1}


def test_offsets_survive_a_checkpoint() -> None:
    offsets = {TopicPartition("with:colon", 2): 7, TopicPartition("id", 0): 1, A: 0}
    assert from_json(to_json(offsets)) == offsets
    ids = {"with:colon": "AAAAAAAAAAAAAAAAAAAAAQ", "id": "1234567890123456789012", "elsewhere": "AA"}
    kept = to_json(offsets, ids)
    assert json.loads(json.dumps(kept)) == kept
    assert from_json(kept) == offsets
    assert topic_ids_of(kept) == {name: ids[name] for name in ("with:colon", "id")}


def test_a_topic_counts_as_recreated_when_both_ids_are_known_and_differ() -> None:
    assert recreated_topics({"t": "1", "u": "1", "gone": "1"}, {"t": "2", "u": "1", "new": "1"}) == {"t"}
    assert not recreated_topics({}, {"t": "2"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs the option subscribe"),
        ({"subscribe": "t"}, "bootstrap.servers: no bootstrap address"),
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger is '0', and must be a number from 1 on"),
        ({"isolation.level": "dirty"}, "isolation.level is 'dirty', and can be read_committed or read_uncommitted"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is 'maybe'"),
        ({"startingOffsets": "{"}, "startingOffsets is earliest, latest or JSON"),
        ({"startingOffsets": '{"t": 1}'}, "startingOffsets is earliest, latest or JSON"),
        ({"assign": "t"}, "has no option 'assign'"),
    ],
)
def test_an_invalid_source_option_is_refused_in_one_sentence(options: dict[str, str], said: str) -> None:
    given = (
        {"bootstrap.servers": "localhost", "subscribe": "t", **options}
        if len(options) and "subscribe" not in options
        else options
    )
    with pytest.raises(ConflictingSettings) as refused:
        SourceOptions.parse(given)
    assert said in str(refused.value)


def test_names_of_options_are_taken_in_any_case() -> None:
    found = SourceOptions.parse({"BOOTSTRAP.servers": "b:1", "Subscribe": "t, u", "MAXROWSPERTRIGGER": "3"})
    assert (found.topics, found.max_rows_per_trigger, found.fail_on_data_loss) == (("t", "u"), 3, True)


# A range


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicLoad]:
    """A topic `t`: offsets 0-1 committed, 2 a marker, 3-4 aborted, 5 a marker, 6 committed, 7 a marker."""
    with BrokerProcess(tmp_path_factory.mktemp("range") / "data", durability="memory") as broker:
        load = TopicLoad(broker.address)
        load.create("t")
        load.transaction("t", [(0, "a"), (0, "b")])
        load.transaction("t", [(0, "x"), (0, "y")], end="abort")
        load.transaction("t", [(0, "c")])
        yield load


def read(load: TopicLoad, start: int, end: int, **options: Any) -> list[tuple[int, bytes | None]]:
    reader = RangeReader(SourceOptions(load.bootstrap, ("t",), **options), A, start, end)
    return [(each.offset, each.value) for each in records_of(reader)]


@pytest.mark.process
@pytest.mark.slow
def test_a_range_has_its_committed_records_and_no_others(load: TopicLoad) -> None:
    assert read(load, 0, 8) == [(0, b"a"), (1, b"b"), (6, b"c")]
    assert read(load, 1, 6) == [(1, b"b")]
    assert read(load, 1, 4, isolation=IsolationLevel.READ_UNCOMMITTED) == [(1, b"b"), (3, b"x")]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("start", "end"), [(2, 6), (3, 5), (7, 8), (4, 4)])
def test_a_range_without_committed_records_ends(load: TopicLoad, start: int, end: int) -> None:
    assert read(load, start, end) == []


@pytest.mark.process
@pytest.mark.slow
def test_a_range_whose_beginning_was_deleted_is_data_loss_unless_that_is_accepted(load: TopicLoad) -> None:
    load.create("short")
    load.transaction("short", [(0, value) for value in "abcd"])
    load.delete_records("short", 2)
    partition = TopicPartition("short", 0)

    def read_short(**options: Any) -> list[bytes | None]:
        reader = RangeReader(SourceOptions(load.bootstrap, ("short",), **options), partition, 0, 5)
        return [each.value for each in records_of(reader)]

    with pytest.raises(DataLoss, match="records from offset 0 on are gone, it begins at 2"):
        read_short()
    assert read_short(fail_on_data_loss=False) == [b"c", b"d"]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1, 9])
def test_a_range_of_a_recreated_topic_is_data_loss_unless_that_is_accepted(load: TopicLoad, rows: int) -> None:
    name = f"anew-{rows}"
    load.create(name)
    load.transaction(name, [(0, value) for value in "abcd"])
    planned = load.topic_id(name)
    load.delete(name)
    load.create(name)
    if rows:
        load.transaction(name, [(0, str(value)) for value in range(rows)])
    partition = TopicPartition(name, 0)

    def read_anew(topic_id: str | None, **options: Any) -> list[bytes | None]:
        reader = RangeReader(SourceOptions(load.bootstrap, (name,), **options), partition, 2, 5, topic_id=topic_id)
        return [each.value for each in records_of(reader)]

    with pytest.raises(DataLoss, match=f"topic {name} was deleted and created anew before {name}-0 was read from"):
        read_anew(planned)
    assert read_anew(planned, fail_on_data_loss=False) == []
    if rows == 9:
        assert read_anew(load.topic_id(name)) == read_anew(None) == [b"2", b"3", b"4"]
