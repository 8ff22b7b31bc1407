"""`Bounds`: what a configuration allows. Within it everything is looked at; beyond it nothing is proved."""

from dataclasses import dataclass

from eosin.coordinator.transactions.rules.timeout_errors import Profile


@dataclass(frozen=True)
class Bounds:
    """A configuration: who takes part, and how often what may happen."""

    name: str
    about: str
    versions: tuple[int, ...] = (2, 2)
    """Of each instance: 0 for the first protocol, 2 for the second (KIP-890)."""
    transactions: tuple[int, ...] = (2, 1)
    """How many each instance runs."""
    server_version: int = 2
    partitions: int = 2
    offsets: bool = False
    """Whether there is also a partition of offsets, written by TxnOffsetCommit."""
    records: int = 1
    """How many of one instance are in a transaction in one partition, at most 7."""
    pipelined: bool = False
    """Whether an instance writes all its records at once, instead of one after the other."""
    crashes: int = 0
    timeouts: int = 0
    duplicates: int = 0
    """Requests that are sent again or given up while the first copy is still on its way."""
    late_markers: int = 0
    """Markers of which a second copy stays on its way."""
    failures: int = 0
    """Appends of the coordinator that fail, for certain or not."""
    two_phase: bool = False
    """Whether an external coordinator decides (KIP-939): instances prepare, nothing times out, and new ones keep what
    is open, commit it if it is what was prepared, and abort it otherwise."""
    reloads: int = 0
    """An instance asks for a new epoch in the middle of a transaction, without ending it."""
    expiries: int = 0
    older_repeats: int = 0
    """How often an instance of version 2 stops for good, and a client of an older version that was built from its
    checkpoint repeats the last EndTxn that it sent, as Flink's committers do."""
    first_epoch: int | None = None
    """The id is there already, with this epoch; else it is new."""
    loses_appends: bool = False
    """Whether a crash takes from the partitions what was not durable; else all of it is at once."""
    first_protocol_holes: bool = False
    """Whether with the first protocol AddPartitionsToTxn and EndTxn may be overtaken by the instance's next requests to
    the coordinator, and TxnOffsetCommit and the markers of an EndTxn by its next transaction: nothing tells them from
    those of the next, since that has the same epoch (KIP-890)."""
    recovering: bool = True
    """`transaction.timeout.recovery`."""
    profile: Profile | None = None
    """Whose answers instances get after a timeout; else those of Java 3 or 4, by their protocol."""
    max_states: int = 10_000_000
