"""Decides where a follower cuts its log when the leader's history is another one (cluster.md 4.8, KIP-320).

Pure. A follower tells in each Fetch the epoch of its last batch; a leader whose log ends that epoch earlier, or never
had it, answers with the end of the largest epoch at or below it that it knows. Always true: what stays is a prefix of
both logs once a final truncation was carried out; each truncation that is not final removes at least one leader epoch,
so a log asks at most as often as it has epochs.
"""

from typing import Final, NamedTuple

from eosin.storage.log.leader_epochs import NO_EPOCH, LeaderEpochs

UNDEFINED_OFFSET: Final = -1


class Divergence(NamedTuple):
    """The answer of a leader to a follower whose log is not a prefix of its own."""

    epoch: int
    """The largest epoch of the leader at or below the one that it was asked for, -1 if it has none."""
    end_offset: int
    """The end of that epoch in the leader's log, -1 if that is unknown."""


class LogEpochs(NamedTuple):
    """A follower's log, as far as its truncation depends on it."""

    entries: tuple[tuple[int, int], ...]
    """(leader epoch, its start offset), oldest first."""
    log_end_offset: int
    high_watermark: int


class Truncation(NamedTuple):
    """The place where a log is cut."""

    offset: int
    """The log end afterwards. It may be the present one: then only epochs that begin there are forgotten."""
    is_final: bool
    """True if both logs agree below `offset`; otherwise the next Fetch tells."""


def truncation_for(divergence: Divergence, log: LogEpochs) -> Truncation:
    """The place to cut a log for this answer of its leader (cluster.md 4.8)."""
    if divergence.end_offset == UNDEFINED_OFFSET:
        return Truncation(min(log.high_watermark, log.log_end_offset), is_final=True)
    ours, our_end = _end_of(divergence.epoch, log)
    if ours == NO_EPOCH:
        return Truncation(min(divergence.end_offset, log.log_end_offset), is_final=True)
    if ours == divergence.epoch:
        return Truncation(min(divergence.end_offset, our_end, log.log_end_offset), is_final=True)
    return Truncation(min(our_end, log.log_end_offset), is_final=False)


def _end_of(epoch: int, log: LogEpochs) -> tuple[int, int]:
    """(our largest epoch at or below `epoch`, its end). An epoch below all of ours ends where our first one begins: no
    batch of ours is of it, so nothing behind that offset can be the leader's."""
    return LeaderEpochs(list(log.entries)).end_offset_for(epoch, log.log_end_offset)
