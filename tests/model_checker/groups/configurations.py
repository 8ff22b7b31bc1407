"""The bounds within which everything is looked at."""

from typing import Final

from model_checker.groups.values import Bounds
from model_checker.membership.values import Kind

_TWO_TOPICS: Final = (("t", 2), ("u", 2))
_MIXED: Final = (Kind.DYNAMIC, Kind.COOPERATIVE)
_STATIC: Final = (Kind.DYNAMIC, Kind.STATIC)
_THREE: Final = (Kind.DYNAMIC, Kind.STATIC, Kind.COOPERATIVE)

SMALL: Final = (
    Bounds("lost", "two members, a lost request or answer", losses=1),
    Bounds("late", "two members, a late copy of a request", copies=1),
    Bounds("static", "a static member that goes for a while", _STATIC, leaves=1, fair_every=2),
    Bounds("timers", "two members, a timer runs out early, a crash", expiries=1, crashes=1, fair_every=2),
    Bounds("topics", "two members, the topic changes", changes=1),
    Bounds("classic", "a classic member, a leave, a lost message", _MIXED, leaves=1, losses=1, fair_every=2),
    Bounds("eager", "an eager classic member, a timer", (Kind.DYNAMIC, Kind.EAGER), expiries=1, fair_every=2),
    Bounds("parts", "a target in parts, a crash", in_parts=True, crashes=1, fair_every=4),
)
"""For the tests: a second each at most."""

LARGE: Final = (
    Bounds("late-and-leave", "two members, a late copy of a request, a leave", copies=1, leaves=1, fair_every=4),
    Bounds("static-and-killed", "a static member that goes, and is killed", _STATIC, leaves=1, kills=1),
    Bounds("topics-twice", "two members, the topic changes twice", changes=2, fair_every=2),
    Bounds("parts-and-leave", "a target in parts, a leave, a crash", in_parts=True, leaves=1, crashes=1, fair_every=4),
    Bounds("three", "a dynamic, a static and a classic member, one of them leaves", _THREE, leaves=1, fair_every=10),
    Bounds("three-timers", "the same, a timer runs out early", _THREE, expiries=1, fair_every=20),
    Bounds("two-copies", "two members, two late copies, a leave", copies=2, leaves=1, fair_every=20),
    Bounds(
        "subscriptions",
        "two topics, other subscriptions, a late copy",
        topics=_TWO_TOPICS,
        subscriptions=2,
        copies=1,
        fair_every=20,
    ),
    Bounds(
        "subscriptions-in-parts",
        "two topics, other subscriptions, a late copy, targets in parts",
        topics=_TWO_TOPICS,
        subscriptions=1,
        copies=1,
        in_parts=True,
        fair_every=20,
    ),
    Bounds(
        "static-in-parts",
        "a static member that comes and goes while a target is computed",
        _STATIC,
        in_parts=True,
        leaves=1,
        fair_every=20,
    ),
    Bounds("mixed", "a classic member, a late copy, a timer", _MIXED, copies=1, expiries=1, fair_every=20),
    Bounds("mixed-topics", "a classic member, the topic changes, a crash", _MIXED, changes=2, crashes=1, fair_every=20),
)
