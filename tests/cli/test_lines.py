"""Lines as records and records as lines."""

import base64
import re
from argparse import ArgumentTypeError

import msgspec
import pytest

from eosin.cli.consume import fields
from eosin.cli.produce import text
from eosin.cli.records.input_lines import BadLine, InputRecord, json_parser, text_parser
from eosin.cli.records.output_lines import json_format, printable, text_format
from eosin.cli.records.positions import Start, StartKind, start
from eosin.cli.records.progress import progress_line
from eosin.cli.records.templates import template, template_format
from eosin.client.consumer import ConsumedRecord
from eosin.protocol.names import TopicPartition
from eosin.protocol.records.batch import NewRecord, Record, build_control_batch, iter_records, read_header

HERE = TopicPartition("orders", 1)


def consumed(key: bytes | None, value: bytes | None, *headers: tuple[str, bytes | None]) -> ConsumedRecord:
    return ConsumedRecord(HERE, Record(7, 1_700_000_000_000, key, value, headers))


def marker() -> ConsumedRecord:
    batch = build_control_batch(
        producer_id=4, producer_epoch=2, commit=True, coordinator_epoch=0, timestamp=0, base_offset=9
    )
    (record,) = iter_records(batch)
    return ConsumedRecord(HERE, record, batch=read_header(batch))


# Input


def test_the_key_stands_before_the_first_separator() -> None:
    parse = text_parser(separator=b":")
    assert parse(b"a:b:c").record == NewRecord(b"a", b"b:c")
    with pytest.raises(BadLine, match="lacks the separator ':'"):
        parse(b"nothing")


def test_a_text_that_stands_for_null_does_so_for_keys_and_values() -> None:
    parse = text_parser(separator=b"\t", null=b"NULL")
    assert parse(b"NULL\tNULL").record == NewRecord(None, None)
    assert parse(b"NULL\tnull").record == NewRecord(None, b"null")


def test_a_key_and_headers_can_be_the_same_for_all() -> None:
    parse = text_parser(key=b"k", headers=(("from", b"here"),))
    assert parse(b"\xff\x00").record == NewRecord(b"k", b"\xff\x00", None, (("from", b"here"),))


def test_a_line_of_json_is_a_record() -> None:
    line = b'{"key":"k","value":{"a":[1,2]},"headers":{"h":"v","n":null},"partition":3,"timestamp":5,"offset":1}'
    assert json_parser()(line) == InputRecord(NewRecord(b"k", b'{"a":[1,2]}', 5, (("h", b"v"), ("n", None))), 3)
    assert json_parser(takes_partitions=False)(line).partition is None
    assert json_parser()(b"{}").record == NewRecord(None, None)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"book", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b'{"valeu":"x"}', "has a field 'valeu'; a record has key, value, headers, partition, timestamp"),
        (b'{"key":{"base64":"!"}}', "has a key that is not base64"),
        (b'{"partition":-1}', "has a partition that is no integer from 0 on"),
        (b'{"timestamp":"now"}', "has a timestamp that is no integer from 0 on"),
        (b'{"headers":["a"]}', "has headers that are neither an object nor a list of pairs"),
        (b'{"headers":[[1,"a"]]}', "has a header whose name is no text"),
    ],
)
def test_a_line_that_is_no_record_is_refused_in_words(line: bytes, complaint: str) -> None:
    with pytest.raises(BadLine) as refused:
        json_parser()(line)
    assert str(refused.value).startswith(complaint)


def test_records_printed_as_json_are_read_as_the_same_records() -> None:
    record = consumed(b"\xff\x00", None, ("plain", b"text"), ("not \udcff text", None), ("bytes", b"\x80"))
    parsed = json_parser()(json_format()(record)).record
    assert (parsed.key, parsed.value, parsed.headers) == (record.record.key, None, record.record.headers)
    assert parsed.timestamp == record.record.timestamp


def test_an_escape_in_an_option_is_meant() -> None:
    assert (text(r"\t"), text("::"), text("ä")) == (b"\t", b"::", "ä".encode())
    with pytest.raises(ArgumentTypeError):
        text("\\x")


# Output


def test_bytes_that_are_no_text_are_base64_in_json() -> None:
    line = msgspec.json.decode(json_format()(consumed(None, b"\xff")))
    assert line["value"] == {"base64": base64.b64encode(b"\xff").decode()}


def test_fields_stand_in_front_of_the_value() -> None:
    line = text_format(("topic", "partition", "offset", "timestamp", "headers", "key"), separator=b"|")
    assert line(consumed(b"k", b"v", ("a", b"1"), ("b", None))) == (
        b"orders|1|7|2023-11-14T22:13:20.000Z|a=1,b=null|k|v\n"
    )
    assert text_format(("key",))(consumed(None, None)) == b"null\tnull\n"


def test_a_pipe_is_given_the_bytes_and_a_terminal_nothing_that_controls_it() -> None:
    escape = consumed(None, b"\x1b[31m\xff \xc3\xa4\tb")
    assert text_format()(escape) == b"\x1b[31m\xff \xc3\xa4\tb\n"
    assert text_format(for_terminal=True)(escape) == "\\x1b[31m\\xff ä\tb\n".encode()
    assert printable(b"two\nlines") == b"two\\nlines"


def test_a_marker_is_shown_with_its_producer() -> None:
    assert text_format(("offset", "key", "producer"))(marker()) == b"9\t4/2\t-- COMMIT marker of producer 4/2\n"
    assert msgspec.json.decode(json_format(with_producer=True)(marker())) == {
        "topic": "orders",
        "partition": 1,
        "offset": 9,
        "timestamp": 0,
        "producer_id": 4,
        "producer_epoch": 2,
        "control": "COMMIT",
    }


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (r"%k %v\n", b"k v\n"),
        (r"%t|%p|%o|%T|%d", b"orders|1|7|1700000000000|1700000000000"),
        (r"%s (%S) %K%V", b"v (1) 11"),
        (r"%h: %H\t%%", b"a=1,b=null: 2\t%"),
        (r"\x41\0\r\\n %x/%y", b"A\0\r\\n -1/-1"),
        ('{"key":"%k"}', b'{"key":"k"}'),
        (r"\q é", "\\q é".encode()),
        ("", b""),
    ],
)
def test_a_format_has_the_letters_of_kcat_and_no_end_of_line_of_its_own(written: str, line: bytes) -> None:
    assert template_format(template(written))(consumed(b"k", b"v", ("a", b"1"), ("b", None))) == line


def test_a_format_shows_null_as_asked_and_its_size_as_less_than_nothing() -> None:
    assert template_format(template("%k %v %K %S"), null=b"NULL")(consumed(None, None)) == b"NULL NULL -1 -1"


def test_a_format_shows_a_marker_as_a_value_and_its_producer() -> None:
    assert template_format(template("%o %x/%y %k %v"))(marker()) == b"9 4/2 - -- COMMIT marker of producer 4/2"


def test_a_format_lets_no_record_control_a_terminal() -> None:
    line = template_format(template(r"%v\x1b[0m"), for_terminal=True)
    assert line(consumed(None, b"\x1b[31m")) == b"\\x1b[31m\x1b[0m"


@pytest.mark.parametrize(
    ("written", "said"),
    [("%q", "no letter %q; a percent sign is %%"), ("100%", "no letter %;"), ("%v{hex}", "without {hex}")],
)
def test_a_format_that_says_nothing_is_refused(written: str, said: str) -> None:
    with pytest.raises(ArgumentTypeError, match=re.escape(said)):
        template(written)


def test_a_field_that_no_record_has_is_refused() -> None:
    assert fields("key, offset") == ("key", "offset")
    with pytest.raises(ArgumentTypeError, match="no field 'colour'"):
        fields("key,colour")


def test_progress_is_told_in_words() -> None:
    assert progress_line(1_204_000, 4_000, "written") == "1,204,000 records written, 301,000 a second"


# Where to begin


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("earliest", Start(StartKind.EARLIEST)),
        ("latest", Start(StartKind.LATEST)),
        ("17", Start(StartKind.OFFSET, 17)),
        ("-10", Start(StartKind.LAST, 10)),
        ("15m", Start(StartKind.AGO, 900_000)),
        ("1.5h", Start(StartKind.AGO, 5_400_000)),
        ("2023-11-14T22:13:20", Start(StartKind.SINCE, 1_700_000_000_000)),
        ("2023-11-14T23:13:20+01:00", Start(StartKind.SINCE, 1_700_000_000_000)),
        ("2023-11-14", Start(StartKind.SINCE, 1_699_920_000_000)),
    ],
)
def test_a_place_to_begin_has_many_names(asked: str, meant: Start) -> None:
    assert start(asked) == meant


@pytest.mark.parametrize("asked", ["", "soon", "1x", "1969-01-01", "--5", "9" * 30])
def test_an_impossible_place_to_begin_is_refused(asked: str) -> None:
    with pytest.raises(ArgumentTypeError, match="must be earliest, latest"):
        start(asked)
