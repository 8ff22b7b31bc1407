"""Three brokers under transactional copiers of three clients, with one process after the other killed."""

from pathlib import Path

import pytest
from cluster_crash import run
from toolchains import skipped_without


@pytest.mark.full
@pytest.mark.timeout(600)
def test_copies_are_exact_whatever_is_killed(tmp_path: Path) -> None:
    with skipped_without():
        losses = run(tmp_path, rounds=1, seed=7, durability="fsync")
    assert losses.total() > 0
