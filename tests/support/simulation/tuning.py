"""Makes what takes a broker minutes happen within a run: checkpoints, compaction, the end of epochs.

These are constants of the broker, not settings, since nobody else has a reason to change them.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from eosin.coordinator import ending, introduction, transaction_log, transitions
from eosin.storage import log_manager, producer_state
from eosin.storage.compaction import choice

FAST = (
    (log_manager, "CHECKPOINT_INTERVAL_MS", 100),
    (log_manager, "SMALL_AFTER_MS", 100),
    (choice, "INTERNAL_DIRTY_BYTES", 600),
)
FEW_EPOCHS = (
    (ending, "LAST_CLIENT_EPOCH", 2),
    (introduction, "LAST_CLIENT_EPOCH", 2),
    (introduction, "FENCING_EPOCH", 3),
    (transitions, "FENCING_EPOCH", 3),
    (transaction_log, "FENCING_EPOCH", 3),
    (producer_state, "MAX_EPOCH", 3),
)
"""A producer id is used up after three epochs, as it really is after 32767."""


@contextmanager
def tuned(*, few_epochs: bool) -> Iterator[None]:
    """For the time of a run."""
    with ExitStack() as changes:
        for module, name, value in (*FAST, *(FEW_EPOCHS if few_epochs else ())):
            changes.enter_context(patch.object(module, name, value))
        yield
