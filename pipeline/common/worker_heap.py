"""The heap of a Python worker of Spark, which runs one task after the other."""

import gc
import sys

_modules_seen = 0
"""The number of modules that this worker had imported when its heap was last exempt from garbage collection."""


def exempt_modules_from_collection() -> None:
    """Keep the modules of this worker out of later garbage collections, after one that includes them.

    Spark collects garbage after every task, before the worker gets the next one. PySpark, pandas and pyarrow are some
    hundred thousand objects that live as long as the worker: walking through them takes longer than most tasks.
    """
    global _modules_seen
    if len(sys.modules) > _modules_seen:
        _modules_seen = len(sys.modules)
        gc.collect()
        gc.freeze()
