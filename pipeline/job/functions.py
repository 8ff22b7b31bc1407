"""Loads the functions that a command names as MODULE:FUNC, from modules of the user.

Always true: a missing module or function is one sentence; tasks in other processes find the same module.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from eosin.pipeline.common.errors import ConflictingSettings


def load(name: str) -> Callable[..., Any]:
    """The function that MODULE:FUNC names. The module may be in the current folder. Raises ConflictingSettings."""
    module_name, colon, function_name = name.partition(":")
    if not (colon and module_name and function_name):
        raise ConflictingSettings(f"{name!r} names no function: write MODULE:FUNC, for example orders:totals")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    # Tasks run in other processes, which import the module by the same name.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConflictingSettings(f"there is no module {module_name!r}, neither installed nor in {here}") from error
        raise ConflictingSettings(f"module {module_name!r} needs {error.name!r}, which is not installed") from error
    function: Callable[..., Any] | None = getattr(module, function_name, None)
    if not callable(function):
        raise ConflictingSettings(f"module {module_name!r} has no function {function_name!r}")
    return function
