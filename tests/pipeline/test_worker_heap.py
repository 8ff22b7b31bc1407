"""What a worker has imported is not searched for garbage after every task."""

import gc
import sys
from types import ModuleType

import pytest

from eosin.pipeline.sink.executors_route import exempt_modules_from_collection


def test_what_is_imported_is_exempt_and_once_for_the_same_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.unfreeze()
    try:
        monkeypatch.setitem(sys.modules, "a_module_that_is_new", ModuleType("a_module_that_is_new"))
        monkeypatch.setattr("eosin.pipeline.sink.executors_route._modules_seen", 0)
        exempt_modules_from_collection()
        exempt = gc.get_freeze_count()
        assert exempt > 1000
        later = [[index] for index in range(5000)]
        exempt_modules_from_collection()
        assert gc.get_freeze_count() <= exempt
        assert len(later) == 5000
    finally:
        gc.unfreeze()
