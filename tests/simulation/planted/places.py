"""Where bugs are planted, and whether anybody comes there.

Code that moves may leave a planted bug behind that nobody calls any more. Its runs are sound then, and no judge has
been asked anything.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final
from unittest.mock import patch

CALLS: Final[dict[str, int]] = {}
"""How often each bug was run, by what it stands in for: of all that were planted since somebody has cleared this."""


@contextmanager
def plant(owner: Any, name: str, careless: Any) -> Iterator[None]:
    """Within it `owner.name` is `careless`, a function or a property, whose calls are counted in CALLS."""
    place = f"{getattr(owner, '__qualname__', owner.__name__)}.{name}"
    CALLS.setdefault(place, 0)
    if isinstance(careless, property):
        assert careless.fget is not None
        counted: Any = property(_counted(careless.fget, place))
    else:
        counted = _counted(careless, place)
    with patch.object(owner, name, counted):
        yield


def unreached() -> list[str]:
    """What bugs stand in for that nobody has called."""
    return [place for place, calls in CALLS.items() if not calls]


def _counted(careless: Callable[..., Any], place: str) -> Callable[..., Any]:
    @wraps(careless)
    def counting(*args: Any, **kwargs: Any) -> Any:
        CALLS[place] = CALLS.get(place, 0) + 1
        return careless(*args, **kwargs)

    return counting
