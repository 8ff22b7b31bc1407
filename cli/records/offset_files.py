"""Files of `TOPIC,PARTITION,OFFSET` lines, as Kafka's own tool exports and reads them."""

import csv
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Final

from eosin.cli.common.arguments import partition_number
from eosin.protocol.names import TopicPartition

MOST_BYTES: Final = 64 * 1024 * 1024


def offsets_in(path: str) -> dict[TopicPartition, int]:
    """The type of an option that names such a file: what it says."""
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise ArgumentTypeError(f"{path} has more than {MOST_BYTES // 1024 // 1024} MiB")
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ArgumentTypeError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ArgumentTypeError(f"{path} is not UTF-8 text") from None
    found: dict[TopicPartition, int] = {}
    for number, line in enumerate(csv.reader(text.splitlines()), start=1):
        if line:
            partition, offset = _place(line, f"{path}:{number}")
            if partition in found:
                raise ArgumentTypeError(f"{path}:{number}: {partition} is there twice")
            found[partition] = offset
    if not found:
        raise ArgumentTypeError(f"{path} has no line")
    return found


def _place(line: list[str], where: str) -> tuple[TopicPartition, int]:
    try:
        topic, partition, offset = (each.strip() for each in line)
        place = TopicPartition(topic, partition_number(partition))
    except (ValueError, ArgumentTypeError):
        topic = offset = ""
    if not topic or not (offset.isascii() and offset.isdigit() and int(offset) < 2**63):
        raise ArgumentTypeError(f"{where}: must be TOPIC,PARTITION,OFFSET, not {','.join(line)!r}")
    return place, int(offset)
