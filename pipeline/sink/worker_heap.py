"""The heap of a Python worker, which Spark has searched for garbage after every task before it hands out the next one.

Always true: what is exempt from that search was alive after a search of its own, when the worker had new modules.
"""

import gc
import sys

_modules = 0


def exempt_modules() -> None:
    """To be called at the end of a task. PySpark, pandas and pyarrow are some hundred thousand objects: looking through
    them takes longer than most tasks, and the next task waits for it. They stay as long as the worker does."""
    global _modules
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.collect()
        gc.freeze()
