"""The bounds within which everything is looked at."""

from typing import Final

from model_checker.membership.values import Kind
from model_checker.streams.values import Bounds

_STATIC: Final = (Kind.DYNAMIC, Kind.STATIC)
_DYNAMIC: Final = (Kind.DYNAMIC, Kind.DYNAMIC, Kind.DYNAMIC)
_THREE: Final = (Kind.DYNAMIC, Kind.STATIC, Kind.DYNAMIC)

SMALL: Final = (
    Bounds("lost", "two members, a lost request or answer", losses=1),
    Bounds("late", "two members, a late copy of a request", copies=1, fair_every=2),
    Bounds("static", "a static member that goes for a while", _STATIC, leaves=1, fair_every=2),
    Bounds("timers", "two members, a timer runs out early, a crash", expiries=1, crashes=1, fair_every=4),
    Bounds("topics", "two members, a topic changes", changes=1),
    Bounds("upgrade", "two members, both of which come back with another topology", upgrades=2, fair_every=4),
    Bounds("standby", "two members that keep copies, one of them leaves", standby_replicas=1, leaves=1, fair_every=2),
    Bounds("threads", "two threads of a process, one of them leaves", processes="pp", leaves=1, fair_every=2),
    Bounds("delay", "the first members wait, a crash", is_delayed=True, crashes=1, fair_every=2),
    Bounds("parts", "a target in parts, a crash", in_parts=True, crashes=1, fair_every=8),
)
"""For the tests: a second or two each at most."""

LARGE: Final = (
    Bounds("late-and-leave", "two members, a late copy of a request, a leave", copies=1, leaves=1, fair_every=8),
    Bounds("static-and-killed", "a static member that goes, and is killed", _STATIC, leaves=1, kills=1, fair_every=4),
    Bounds("static-and-crash", "a static member that goes, a crash", _STATIC, leaves=1, crashes=1, fair_every=8),
    Bounds("static-and-late", "a static member that goes, a late copy", _STATIC, leaves=1, copies=1, fair_every=8),
    Bounds("static-upgrade", "a static member, both come back with another topology", _STATIC, upgrades=2, leaves=1),
    Bounds("static-in-parts", "a static member, a target in parts", _STATIC, in_parts=True, leaves=1, fair_every=20),
    Bounds(
        "static-standby", "a static member, copies, a lost message", _STATIC, standby_replicas=1, losses=1, leaves=1
    ),
    Bounds("topics-twice", "two members, a topic changes twice", changes=2, fair_every=4),
    Bounds("standby-topics", "copies of two tasks, a topic changes", partitions=2, standby_replicas=1, changes=1),
    Bounds(
        "threads-standby",
        "two threads and another process, copies, a leave",
        _DYNAMIC,
        processes="ppq",
        standby_replicas=1,
        leaves=1,
        fair_every=20,
    ),
    Bounds("three", "two dynamic and a static member, one of them leaves", _THREE, leaves=1, fair_every=20),
    Bounds("two-copies", "two members, two late copies", copies=2, fair_every=20),
)
