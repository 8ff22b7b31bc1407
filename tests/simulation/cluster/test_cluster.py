"""Several whole brokers under transactions, crashes and cuts, seed by seed; and bugs planted in them. See
docs/testing.md."""

from collections.abc import Callable
from hashlib import sha256

import pytest

from simulation import bug_seeds
from simulation.bug_seeds import IN_A_CLUSTER, PAGE, STALE, prove_caught
from simulation.campaign import first_caught, run_seed, run_seeds
from simulation.cluster import coordination_bugs
from simulation.cluster.directed import DIRECTED, TO_AND_FRO
from simulation.cluster.plan import CUT_DELETION, CUT_MARKER, LONG_CUT, SHARE_MEMBERS
from simulation.cluster.planted import CLUSTER_BUGS, CLUSTER_ONLY
from simulation.planted import Bug

SHORT = 8
"""Seeds of `make test`; the others are left to `make gate`."""
SEEDS = 32
"""`make proof-simulate-cluster` has a hundred times as many."""
CHUNK = 8
SHORT_BUGS = 6
"""`make test` plants one bug of so many; the others are left to `make gate`."""


def seeds(count: int, *, each: int, short: int) -> pytest.MarkDecorator:
    """So many seeds, `each` to a test; those from `short` on are left to `make gate`."""
    parts = [range(0, short), *(range(first, min(first + each, count)) for first in range(short, count, each))]
    return pytest.mark.parametrize(
        "seeds",
        [pytest.param(part, id=f"{part[0]}-{part[-1]}", marks=pytest.mark.full if part[0] else ()) for part in parts],
    )


@pytest.mark.slow
@seeds(SEEDS, each=CHUNK, short=SHORT)
def test_no_seed_shows_a_cluster_that_breaks_its_promises(seeds: range) -> None:
    figures = run_seeds(seeds, of_cluster=True)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)


@pytest.mark.slow
@pytest.mark.full
def test_brokers_that_come_back_with_empty_disks_lose_nothing_that_was_acknowledged() -> None:
    figures = run_seeds(range(4), of_cluster=True, only="empty disk")
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts["faults of kind empty disk"] > 0


@pytest.mark.slow
@seeds(4, each=CHUNK, short=2)
def test_power_that_two_of_three_machines_lose_at_once_takes_nothing_that_was_acknowledged(seeds: range) -> None:
    figures = run_seeds(seeds, of_cluster=True, only="power all but one")
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts["faults of kind power all but one"] > 0


@pytest.mark.slow
@seeds(4, each=CHUNK, short=2)
def test_what_brokers_gave_up_in_a_long_cut_ends_no_later_transaction(seeds: range) -> None:
    figures = run_seeds(seeds, of_cluster=True, only=LONG_CUT)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts["faults of kind long cut"] > 0


@pytest.mark.slow
@seeds(4, each=CHUNK, short=2)
def test_a_deletion_that_a_broker_gave_up_deletes_nothing_that_was_made_since(seeds: range) -> None:
    figures = run_seeds(seeds, of_cluster=True, only=CUT_DELETION)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts["faults of kind cut deletion"] > 0
    assert figures.counts["topics deleted"] > 0


@pytest.mark.slow
@seeds(4, each=CHUNK, short=1)
def test_a_marker_that_a_new_leader_lacks_is_written_again(seeds: range) -> None:
    figures = run_seeds(seeds, of_cluster=True, only=CUT_MARKER)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts["faults of kind cut marker"] > 0


@pytest.mark.slow
@seeds(4, each=CHUNK, short=2)
def test_share_groups_get_everything_once_at_least_and_nothing_that_is_done(seeds: range) -> None:
    figures = run_seeds(seeds, of_cluster=True, only=SHARE_MEMBERS)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts["acknowledgements of records"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("members", ["consumer members", "streams members"])
@seeds(2, each=CHUNK, short=1)
def test_members_of_new_groups_copy_once_while_their_coordinators_move(seeds: range, members: str) -> None:
    figures = run_seeds(seeds, of_cluster=True, only=members)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == TO_AND_FRO else pytest.mark.full) for kind in sorted(DIRECTED)]
)
@seeds(2, each=CHUNK, short=1)
def test_a_cluster_that_is_struck_in_a_chosen_state_keeps_its_promises(seeds: range, kind: str) -> None:
    figures = run_seeds(seeds, of_cluster=True, only=kind)
    assert not figures.failures, "\n".join(str(failure) for failure in figures.failures)
    assert figures.counts[f"faults of kind {kind}"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "missing",
    [
        coordination_bugs.given_up_requests_arrive,
        pytest.param(coordination_bugs.older_connections_taken, marks=pytest.mark.full),
    ],
)
def test_each_end_of_a_link_alone_keeps_late_markers_out(missing: Bug) -> None:
    """Of the seeds that show what happens without both."""
    seeds = bug_seeds.read()["cluster"]["late_markers_taken"]
    with missing():
        assert first_caught(seeds, of_cluster=True, only=LONG_CUT) is None


def test_a_seed_of_a_cluster_replays_exactly() -> None:
    def fingerprint() -> str:
        run, _ = run_seed(1, of_cluster=True)
        return sha256("\n".join((*run.history.lines(), str(run.scheduler.steps))).encode()).hexdigest()

    assert fingerprint() == fingerprint()


@pytest.mark.timeout(bug_seeds.LONGEST_S)
@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=pytest.mark.full if index % SHORT_BUGS else ()) for index, bug in enumerate(CLUSTER_BUGS)],
)
def test_a_bug_planted_in_a_cluster_is_caught(bug: str, drifted: Callable[[str], None]) -> None:
    prove_caught(IN_A_CLUSTER[bug], bug_seeds.read()["cluster"].get(bug, ()), drifted=drifted)


def test_the_table_and_the_documentation_name_every_bug_of_a_cluster_and_its_seeds() -> None:
    bugs = list(CLUSTER_BUGS)
    assert list(bug_seeds.read()["cluster"]) == bug_seeds.bugs_on(PAGE.read_text())["cluster"] == bugs, STALE
    assert CLUSTER_ONLY.keys() <= CLUSTER_BUGS.keys()
