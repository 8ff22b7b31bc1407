"""Entries of the journal that no loaded log has taken: their logs are offline, unknown, or without a directory."""

import logging
from collections.abc import Mapping
from typing import Final

from eosin.protocol.names import ZERO_UUID, TopicPartition, Uuid
from eosin.storage.journal.found import FoundJournal
from eosin.storage.log.partition_log import PartitionLog

_LOG: Final = logging.getLogger("eosin.storage")
_SHOWN: Final = 10


def what_is_left(
    journal: FoundJournal, logs: Mapping[TopicPartition, PartitionLog]
) -> tuple[bool, dict[tuple[TopicPartition, Uuid], int]]:
    """(whether the journal is still needed, the logs that have entries and no directory, and where they ended): these
    are missed if their topics exist. It is needed for logs that could not be loaded, and for those whose topic id was
    lost, until it is known which topic that is."""
    missed: dict[tuple[TopicPartition, Uuid], int] = {}
    is_kept = False
    for partition, ends in journal.logs.items():
        topic_id = logs[partition].topic_id if partition in logs else None
        missed |= {(partition, each): end for each, end in ends.items() if each != topic_id}
        is_kept |= topic_id == ZERO_UUID and ZERO_UUID not in ends
    offline = [partition for partition, log in logs.items() if log.failure and journal.has(partition)]
    if offline:
        is_kept = True
        _LOG.error(
            "the journal is kept, and no new one begun, as it holds records of %s: %s. Until they can be loaded or are"
            " deleted every log is synced by itself",
            "partitions that are offline" if len(offline) > 1 else "a partition that is offline",
            ", ".join(map(str, offline[:_SHOWN])),
        )
    return is_kept, missed
