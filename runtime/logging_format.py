"""The format of log lines: one line per event on stderr, as text to be read or as JSON to be collected.

    2026-05-17T08:30:00.123Z INFO  cli.serve: stopping signal=SIGTERM

Facts of an event go into `extra=fields(key=value)`, so that both forms can show them. A value with a blank, `=` or a
quote stands in quotes, so that none of what a peer sent passes for another field.
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

_FIELDS: Final = "eosin_fields"
_PREFIX: Final = "eosin."
_MARKS: Final = ' ="'
"""A value that holds one of them is quoted."""
MAX_VALUE_CHARS: Final = 256
"""Of a value that a peer sent."""


def fields(**facts: Any) -> Mapping[str, Any]:
    """Facts for `extra=` of a logging call."""
    return {_FIELDS: facts}


def facts_of(record: logging.LogRecord) -> Mapping[str, Any]:
    """The facts of a record."""
    found: Mapping[str, Any] = getattr(record, _FIELDS, {})
    return found


def add_facts(record: logging.LogRecord, **facts: Any) -> None:
    """Tell more in a record that was made already."""
    setattr(record, _FIELDS, {**facts_of(record), **facts})


def shown(value: object) -> str:
    """A value as lines may hold it: without line breaks and other control characters, of a bounded length."""
    text = str(value)
    if len(text) > MAX_VALUE_CHARS:
        text = text[:MAX_VALUE_CHARS] + "..."
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def setup_logging(*, level: str, form: str = "text") -> None:
    """Send every log line of this process to stderr, from `level` (debug, info, warning, error) on."""
    from eosin.runtime.repeated_faults import RepeatedFaults  # which knows the fields of this module

    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RepeatedFaults())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # asyncio tells of its selector and of slow callbacks at levels that say nothing to an operator.
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _when(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    """A line for people."""

    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix(_PREFIX)
        line = f"{_when(record)} {record.levelname:<7} {name}: {_single_line(record.getMessage())}"
        for key, value in facts_of(record).items():
            line += f" {key}={_as_value(str(value))}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """A line for collectors."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "time": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event |= facts_of(record)
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


def _single_line(text: str) -> str:
    """Text from a peer may hold line ends, which would let it forge log lines."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _as_value(text: str) -> str:
    """Text as the value of a field, in quotes where it would be read as more than that."""
    line = _single_line(text)
    return quoted(text) if not line or any(mark in line for mark in _MARKS) else line


def quoted(text: str) -> str:
    """Text from a peer as a part of a message: where it ends is plain to see."""
    return '"' + _single_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'
