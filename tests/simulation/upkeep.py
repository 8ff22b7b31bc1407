"""What an operator may do to the files of a broker that has stopped: remove those that the next start makes again
(docs/operations.md)."""

import random

from eosin.lab.disk.lying_disk import LyingDisk
from simulation.values import RETAINED

_DATA = "data"
_INDEXES = (".index", ".timeindex", ".txnindex")
_SNAPSHOT = ".snapshot"
_RETAINED = f"{RETAINED.topic}-{RETAINED.partition}"
"""Of what retention has taken only snapshots tell, so that nothing makes these again."""


def remove_what_is_made_again(disk: LyingDisk, chance: random.Random) -> None:
    """The indexes of some segments, and the newest snapshots of some partitions."""
    for partition in disk.list(_DATA):
        directory = f"{_DATA}/{partition}"
        if not disk.is_directory(directory):
            continue
        names = disk.list(directory)
        segments = [name.removesuffix(".log") for name in names if name.endswith(".log") and chance.random() < 0.4]
        gone = [name for name in names if name.startswith(tuple(segments)) and name.endswith(_INDEXES)]
        snapshots = [name for name in names if name.endswith(_SNAPSHOT)]
        if partition != _RETAINED and snapshots:
            gone += snapshots[chance.randint(0, len(snapshots)) :]
        for name in gone:
            disk.unlink(f"{directory}/{name}")
        disk.sync_directory(directory)
