"""Lines of input as records: a value, a key and a value, or a JSON object as `eosin consume --json` prints it.

Always true: bytes are taken as they are, except in JSON, where what is no text is `{"base64": ...}`.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from eosin.protocol.records.batch import NewRecord
from eosin.protocol.records.fields import Header


class BadLine(Exception):
    """A line that is no record; the text goes on from "line 7"."""


class InputRecord(NamedTuple):
    """A record, and the partition that its line names."""

    record: NewRecord
    partition: int | None = None


Parse = Callable[[bytes], InputRecord]

_FIELDS: Final = ("key", "value", "headers", "partition", "timestamp")
_IGNORED: Final = ("topic", "offset")
"""The fields that `eosin consume --json` prints, and that no producer can choose here."""


def text_parser(
    *,
    separator: bytes | None = None,
    key: bytes | None = None,
    null: bytes | None = None,
    headers: tuple[Header, ...] = (),
) -> Parse:
    """Make the parser of lines of text: `key` is that of every record, else what is before the first `separator`;
    `null` stands for no key or no value."""

    def parse(line: bytes) -> InputRecord:
        value, own_key = line, key
        if separator is not None:
            before, found, value = line.partition(separator)
            if not found:
                raise BadLine(f"has no key: it lacks the separator {separator.decode(errors='backslashreplace')!r}")
            own_key = None if before == null else before
        return InputRecord(NewRecord(own_key, None if value == null else value, None, headers))

    return parse


def json_parser(*, headers: tuple[Header, ...] = (), takes_partitions: bool = True) -> Parse:
    """Make the parser of lines with a JSON object each; `headers` are added to its own."""

    def parse(line: bytes) -> InputRecord:
        try:
            fields = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise BadLine(f"is not JSON: {str(error).removeprefix('JSON is malformed: ')}") from None
        if not isinstance(fields, dict):
            raise BadLine("is not a JSON object")
        unknown = fields.keys() - {*_FIELDS, *_IGNORED}
        if unknown:
            raise BadLine(f"has a field {min(unknown)!r}; a record has {', '.join(_FIELDS)}")
        record = NewRecord(
            _bytes(fields.get("key"), "key"),
            _bytes(fields.get("value"), "value"),
            _integer(fields.get("timestamp"), "timestamp"),
            (*_headers(fields.get("headers")), *headers),
        )
        partition = _integer(fields.get("partition"), "partition") if takes_partitions else None
        return InputRecord(record, partition)

    return parse


def _bytes(content: Any, name: str) -> bytes | None:
    if content is None or isinstance(content, str):
        return None if content is None else content.encode()
    if isinstance(content, dict) and content.keys() == {"base64"} and isinstance(content["base64"], str):
        try:
            return base64.b64decode(content["base64"], validate=True)
        except (binascii.Error, ValueError):
            raise BadLine(f"has a {name} that is not base64") from None
    if isinstance(content, dict | list | int | float):
        return msgspec.json.encode(content)  # JSON inside of JSON needs no quotes
    raise BadLine(f"has a {name} that is neither text nor an object with base64")


def _integer(content: Any, name: str) -> int | None:
    if content is None:
        return None
    if not isinstance(content, int) or isinstance(content, bool) or not 0 <= content < 2**63:
        raise BadLine(f"has a {name} that is no integer from 0 on")
    return content


def _headers(content: Any) -> tuple[Header, ...]:
    if isinstance(content, dict):
        content = list(content.items())
    if content is None:
        return ()
    if not isinstance(content, list) or not all(isinstance(each, list | tuple) and len(each) == 2 for each in content):
        raise BadLine("has headers that are neither an object nor a list of pairs")
    return tuple((_header_name(name), _bytes(value, "header")) for name, value in content)


def _header_name(content: Any) -> str:
    name = _bytes(content, "header name") if isinstance(content, str | dict) else None
    if name is None:
        raise BadLine("has a header whose name is no text")
    return name.decode("utf-8", "surrogateescape")
