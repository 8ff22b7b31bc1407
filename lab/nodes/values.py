"""Values about nodes that a broker of the lab returns. They travel between processes."""

import msgspec

from eosin.lab.common.values import PartitionName


class LabNodeNow(msgspec.Struct, frozen=True):
    """One node of a broker."""

    node: int
    address: str
    """HOST:PORT, for a client that knows this node alone."""
    state: str
    """`up`, `down` or `paused`."""
    in_metadata: bool
    """False once the other nodes have noticed that it is down."""
    leads: tuple[PartitionName, ...]
    """The partitions that it leads; those of the internal topics are its groups and transactional ids."""
