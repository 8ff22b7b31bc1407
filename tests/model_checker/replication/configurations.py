"""The bounds within which everything is looked at."""

from typing import Final

from model_checker.replication.values import Bounds

SMALL: Final = (
    Bounds("crash", "two replicas, two records, a crash", crashes=1),
    Bounds("elections", "two replicas, two records, two elections by hand", elections=2),
    Bounds(
        "three", "three replicas, two must be in sync, an election", brokers=3, min_in_sync=2, appends=1, elections=1
    ),
    Bounds("late-fetch", "two replicas, a fetch that comes late, a crash", appends=1, crashes=1, late_fetches=1),
    Bounds(
        "lost-disk",
        "two replicas, a crash, an empty disk, a late fetch",
        appends=1,
        crashes=1,
        losses=1,
        late_fetches=1,
    ),
    Bounds(
        "lag",
        "two replicas, a follower lags, an answer of the controller is lost",
        lags=1,
        lost_answers=1,
        fair_every=5,
    ),
    Bounds(
        "fencing", "two replicas, one is fenced without knowing, a crash", appends=1, crashes=1, fences=1, fair_every=5
    ),
    Bounds(
        "two-in-sync",
        "two replicas, both must be in sync, eligible leader replicas, a crash",
        min_in_sync=2,
        elr=True,
        appends=1,
        crashes=1,
        fences=1,
        fair_every=5,
    ),
)
"""For the tests: seconds to a minute each."""

LARGE: Final = (
    Bounds("two-crashes", "two replicas, two records, two crashes", crashes=2, fair_every=20),
    Bounds(
        "two-in-sync-lag",
        "two replicas, both must be in sync, eligible leader replicas, a crash, a lag",
        min_in_sync=2,
        elr=True,
        crashes=1,
        lags=1,
        fair_every=20,
    ),
    Bounds(
        "fencing-and-lag",
        "two replicas, a crash, a fencing, a lag",
        appends=1,
        crashes=1,
        fences=1,
        lags=1,
        fair_every=20,
    ),
)
