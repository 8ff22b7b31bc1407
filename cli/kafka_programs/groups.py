"""kafka-consumer-groups, as far as it lists and describes groups."""

from collections.abc import Sequence
from typing import Final

from eosin.cli.kafka_programs.queries import Unanswerable, query
from eosin.cli.kafka_programs.words import parse_words
from eosin.client.client import Client
from eosin.client.groups import GroupAdmin
from eosin.client.offsets import LATEST, list_offsets

PROGRAM: Final = "kafka-consumer-groups"
_TITLE: Final = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")


def main(arguments: Sequence[str]) -> int:
    """Run the program; returns its exit code. Raises Unanswerable."""
    words = parse_words(arguments)
    if words.has("list"):
        return query(PROGRAM, words, _list)
    if words.has("describe") and words.has("group"):
        return query(PROGRAM, words, lambda client: _describe(client, words.all("group")))
    raise Unanswerable("only --list and --describe --group GROUP are there: eosin groups does more")


async def _list(client: Client) -> Sequence[str]:
    return sorted(each.group_id for each in await GroupAdmin(client).list_groups())


async def _describe(client: Client, groups: Sequence[str]) -> Sequence[str]:
    rows = [_TITLE]
    for group in groups:
        committed = await GroupAdmin(client).offsets(group)
        ends = await list_offsets(client, dict.fromkeys(committed, LATEST))
        for partition, offset in sorted(committed.items()):
            end = ends[partition]
            number = str(partition.partition)
            rows.append((group, partition.topic, number, str(offset), str(end), str(max(0, end - offset))))
    widths = [max(len(row[at]) for row in rows) for at in range(len(_TITLE))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
