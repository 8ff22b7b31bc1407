"""Printing values line by line, for people or as JSON, until the reader of the output has gone."""

import io
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from eosin.cli.common.standard_files import until_output_fails
from eosin.storage.inspection.internal_records import text_or_bytes
from eosin.storage.inspection.values import RecordFound, Value


def json_line(value: Value) -> str:
    """One JSON object without line breaks. Bytes are text where they are text, else `{"base64": ...}`."""
    fields: dict[str, Any] = msgspec.to_builtins(value, builtin_types=(bytes,))
    if isinstance(value, RecordFound):
        fields["key"] = None if value.key is None else text_or_bytes(value.key)
        fields["value"] = None if value.value is None else text_or_bytes(value.value)
        fields["headers"] = [[text_or_bytes(name), _or_none(content)] for name, content in raw_headers(value)]
    return msgspec.json.encode(fields).decode()


def _or_none(data: bytes | None) -> Any:
    return None if data is None else text_or_bytes(data)


def raw_headers(value: RecordFound) -> Iterable[tuple[bytes, bytes | None]]:
    """The headers of a record with their names as bytes, since a name need not be UTF-8."""
    return [(name.encode("utf-8", "surrogateescape"), content) for name, content in value.headers]


def until_broken_pipe(run: Callable[[], int]) -> int:
    """The exit code of `run`, whose output takes any text: what its encoding lacks is escaped. 0 or 2 where the output
    takes nothing."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return until_output_fails(run)
