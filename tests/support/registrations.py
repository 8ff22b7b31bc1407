"""The metadata of a broker and of a partition, as far as the leader of a partition needs it."""

from typing import NamedTuple


class Broker(NamedTuple):
    """A registered broker."""

    epoch: int
    fenced: bool = False
    in_controlled_shutdown: bool = False


class Partition(NamedTuple):
    """The registration of a partition."""

    replicas: tuple[int, ...] = (1, 2, 3)
    isr: tuple[int, ...] = (1, 2, 3)
    leader_epoch: int = 5
    partition_epoch: int = 10
