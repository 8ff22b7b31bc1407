"""Mistakes of a cluster's operators: `eosin partition accept-loss` typed on some machine, and an
unclean election asked for, at any moment. What may be lost by it, and nothing else, is known afterwards.

Always true: accept-loss is refused, for of three copies one is lost at no time, so no broker waits for that decision;
an election that somebody leads already, or could lead with all that is committed, changes nothing. Only an election
that the controllers carry out may have taken records away, of that partition.
"""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final

from cluster_topics import ClusterTopics

from eosin.cli import partition as command
from eosin.client.errors import ClientError
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition

REFUSED: Final = 2
"""The exit code of a command that has done nothing."""
_INTERNAL: Final = tuple(TopicPartition(topic, 0) for topic in (TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC))


class WronglyAccepted(AssertionError):
    """A loss was accepted that need not be."""


class Mistakes:
    """Made in one cluster."""

    def __init__(self, bootstrap: str, directories: Sequence[Path]) -> None:
        """`directories` are those of the Eosin brokers."""
        self.may_lack: set[TopicPartition] = set()
        """Partitions that an unclean election may have taken records from."""
        self.made: Counter[str] = Counter()
        self._topics = ClusterTopics(bootstrap)
        self._directories = directories

    def make_one(self, chance: random.Random, partition: TopicPartition) -> None:
        """Any of them; an election of that partition, or the word that its loss is accepted, or that of the internal
        ones'. Raises WronglyAccepted."""
        if self._directories and chance.random() < 0.5:
            self.accept_loss(chance.choice(self._directories), chance.choice((partition, *_INTERNAL)))
        else:
            self.elect(partition)

    def accept_loss(self, folder: Path, partition: TopicPartition) -> None:
        """`eosin partition accept-loss`, on the machine that has this directory. Raises WronglyAccepted."""
        said = StringIO()
        with redirect_stderr(said), redirect_stdout(said):
            code = command.main(["accept-loss", str(partition), "--data-dir", str(folder)])
        if code != REFUSED:
            raise WronglyAccepted(f"the loss of {partition} was accepted in {folder}: {said.getvalue()}")
        self.made["the word that a loss is accepted, refused"] += 1

    def elect(self, partition: TopicPartition) -> None:
        """An unclean election. Nobody knows whether one without an answer was carried out."""
        try:
            error = self._topics.elect(partition.topic, partition=partition.partition, unclean=True)
        except (ClientError, OSError):
            self.made["unclean election without an answer"] += 1
            self.may_lack.add(partition)
            return
        if error is ErrorCode.NONE:
            self.made["unclean election carried out"] += 1
            self.may_lack.add(partition)
        else:
            self.made[f"unclean election refused with {error.name}"] += 1
