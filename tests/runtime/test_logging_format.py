"""Log lines: one per event, readable, and not to be forged by peers."""

import json
import logging
import sys

import pytest

from eosin.runtime.logging_format import JsonFormatter, TextFormatter, fields


def record(message: str, *args: object, exc: bool = False, **facts: object) -> logging.LogRecord:
    info = None
    if exc:
        try:
            raise OSError("gone")
        except OSError:
            info = sys.exc_info()
    logger = logging.getLogger("eosin.broker.test")
    return logger.makeRecord(logger.name, logging.WARNING, "file", 1, message, args, info, extra=dict(fields(**facts)))


def test_a_line_tells_when_how_bad_where_what_and_its_facts() -> None:
    line = TextFormatter().format(record("closing %s", "it", peer="10.0.0.1:5", requests=3))
    when, rest = line.split(" ", 1)
    assert rest == "WARNING broker.test: closing it peer=10.0.0.1:5 requests=3"
    assert when.endswith("Z")
    assert len(when) == len("2026-05-17T08:30:00.123Z")


def test_line_ends_in_what_a_peer_sent_do_not_forge_lines() -> None:
    line = TextFormatter().format(record("client %s", "a\n2026 ERROR forged", name="x\ty"))
    assert "\n" not in line
    assert r"a\n2026 ERROR forged" in line
    assert r"name=x\ty" in line


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("orders", "orders"),
        ("x principal=User:admin", '"x principal=User:admin"'),
        ("a=b", '"a=b"'),
        ('say "no"', r'"say \"no\""'),
        ('a"b', r'"a\"b"'),
        ("a\\ b", r'"a\\ b"'),
        ("", '""'),
        ("x\ny", r"x\ny"),
        ("x\u00a0y=1", r'"x\xa0y=1"'),
        ("C:\\logs", r"C:\logs"),
    ],
)
def test_a_value_cannot_pass_for_another_field(value: str, shown: str) -> None:
    assert (
        TextFormatter()
        .format(record("denied", resource=value, rule="none"))
        .endswith(f": denied resource={shown} rule=none")
    )


def test_a_traceback_follows_its_line() -> None:
    lines = TextFormatter().format(record("failed", exc=True)).splitlines()
    assert lines[0].endswith("failed")
    assert lines[-1] == "OSError: gone"


def test_the_same_event_as_json_holds_the_facts_as_values() -> None:
    event = json.loads(JsonFormatter().format(record("closing %s", "it", exc=True, requests=3)))
    assert (event["level"], event["logger"], event["message"], event["requests"]) == (
        "warning",
        "eosin.broker.test",
        "closing it",
        3,
    )
    assert "OSError: gone" in event["traceback"]
