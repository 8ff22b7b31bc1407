"""Makes what takes a broker minutes happen within a run (checkpoints, compaction, the end of epochs), on small sectors.

These are constants of the broker, not settings, since nobody else has a reason to change them. Each is changed in every
module that knows it.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from types import ModuleType
from unittest.mock import patch

SECTOR_BYTES = 64
"""Smaller than a device's, since files are small."""

FAST = {
    "CHECKPOINT_INTERVAL_MS": 100,
    "SMALL_AFTER_MS": 100,
    "INTERNAL_UNCOMPACTED_BYTES": 600,
    "_SECTOR_BYTES": SECTOR_BYTES,
    "BLOCK_BYTES": SECTOR_BYTES,
}
FEW_EPOCHS = {
    "LAST_CLIENT_EPOCH": 2,
    "FENCING_EPOCH": 3,
    "MAX_EPOCH": 3,
}
"""A producer id is used up after three epochs, as it really is after 32767. Groups have epochs of another kind."""


@contextmanager
def tuned(*, few_epochs: bool) -> Iterator[None]:
    """For the time of a run."""
    with ExitStack() as changes:
        for name, value in {**FAST, **(FEW_EPOCHS if few_epochs else {})}.items():
            for module in _modules_with(name):
                changes.enter_context(patch.object(module, name, value))
        yield


@cache
def _modules_with(name: str) -> tuple[ModuleType, ...]:
    others = ("eosin.coordinator.groups.",) if name in FEW_EPOCHS else ()
    modules = tuple(
        module
        for path, module in list(sys.modules.items())
        if path.startswith(("eosin.coordinator.", "eosin.storage."))
        and not path.startswith(others)
        and name in vars(module)
    )
    assert modules, f"nothing is called {name} any more"
    return modules
