"""Finds out how far the stored state of a share partition speaks of the records that its log has now. Pure.

A log may lose its end: in an election that is not clean, or by a power loss that its durability allows. It grows again
under a later leader epoch, and what was stored of the lost offsets would count for the records in their place: what was
acknowledged once would never be delivered.
"""

from typing import Final, Protocol

from eosin.broker.sharing.rules.window import ShareWindow
from eosin.coordinator.share_states import UNKNOWN_OFFSET, ShareState, ShareStateSummary

FIRST_LEADER_EPOCH: Final = 0
"""The epoch of a state without batches that perhaps no leader has read: nobody can tell which log it speaks of."""


class EpochLog(Protocol):
    """A log, as far as its leader epochs go: a partition's log is one."""

    leader_epoch: int
    """The epoch of the election, or the start, which made this broker its leader."""
    log_end_offset: int

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch at or below `epoch`, where it ends), else (-1, -1)."""


def stored_end(known: ShareStateSummary, state: ShareState, log: EpochLog) -> int:
    """Below this offset `state` counts for what is in the log. `known` is its summary from before it was read in the
    log's leader epoch, and so has the newest epoch in which a leader has changed it: that leader's log ended where the
    epoch ends in this one, or there is less of it here than it had."""
    is_empty = state.start_offset == UNKNOWN_OFFSET and not state.batches
    is_a_leaders = known.leader_epoch > FIRST_LEADER_EPOCH or bool(state.batches)
    # A leader of an epoch between the two may have changed it after the summary.
    is_that_one = (known.state_epoch, known.start_offset) == (state.state_epoch, state.start_offset)
    if is_empty or not is_a_leaders or not is_that_one or known.leader_epoch >= log.leader_epoch:
        return log.log_end_offset
    _, end = log.end_of_epoch(known.leader_epoch)
    return log.log_end_offset if end < 0 else min(end, log.log_end_offset)


def kept_of(state: ShareState, start: int, log_end: int) -> tuple[ShareState, int]:
    """The rest of a state that begins at `start` when its log was cut at `log_end`, and the number of deliveries in it
    that are complete. Raises ValueError for batches that make no sense."""
    done = ShareWindow.loaded(start, state.batches, log_end=log_end).done
    batches = tuple(each._replace(last=min(each.last, log_end - 1)) for each in state.batches if each.first < log_end)
    return ShareState(state.state_epoch, min(start, log_end), batches), done
