"""The feed: the records that an application is given, made or from a file, and the topics that it works on."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError

FEED: Final = 100
"""Records, unless somebody says otherwise."""


class FedRecord(msgspec.Struct, frozen=True):
    """A record of the feed."""

    value: str | None
    key: str | None = None
    headers: dict[str, str] = {}
    partition: int | None = None


def made_feed(count: int, partitions: int) -> list[FedRecord]:
    """So many records with keys of their own, over all partitions. Raises LabError."""
    if count < 2:
        raise LabError(f"--feed is 2 records or more: half of them before the fault; not {count}")
    return [
        FedRecord(json.dumps({"id": f"record-{number}", "number": number}), f"record-{number}", {}, number % partitions)
        for number in range(count)
    ]


def feed_in(path: Path) -> list[FedRecord]:
    """The records of a file with one JSON object a line: `value`, and maybe `key`, `headers` and `partition`; values
    that are no texts are written as JSON. Raises LabError."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(
            f"cannot read --feed-file {path}: {getattr(error, 'strerror', None) or 'it is no text'}"
        ) from None
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            found.append(_record(line, f"{path}:{number}"))
    if len(found) < 2:
        raise LabError(f"{path} has {len(found)} records: a feed has 2 or more, half of them before the fault")
    return found


def _record(line: str, where: str) -> FedRecord:
    try:
        found: Any = json.loads(line)
        if not isinstance(found, dict) or "value" not in found:
            raise ValueError
        value = found["value"]
        found["value"] = value if value is None or isinstance(value, str) else json.dumps(value)
        return msgspec.convert(found, FedRecord)
    except ValueError:
        raise LabError(
            f'{where} is no record: write {{"value": ..., "key": "...", "headers": {{}}, "partition": 0}}'
        ) from None


def write(eosin: BrokerApi, topic: str, records: Iterable[FedRecord]) -> None:
    """Write records of a feed: neighbours of one partition together."""
    for each in _runs(records):
        first = each[0]
        eosin.produce(
            topic,
            *(one.value for one in each),
            key=first.key,
            headers=first.headers,
            partition=first.partition,
        )


def _runs(records: Iterable[FedRecord]) -> Iterable[list[FedRecord]]:
    run: list[FedRecord] = []
    for each in records:
        if run and (each.partition, each.key, each.headers) != (run[0].partition, run[0].key, run[0].headers):
            yield run
            run = []
        run.append(each)
    if run:
        yield run
