"""What the log says of a replica that is cut: whether committed records go (cluster.md 4.8)."""

import logging
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from manual_clock import ManualClock

from eosin.cluster.replication.followed_replica import FollowedReplica
from eosin.cluster.replication.rules.followed_partition import Answered
from eosin.cluster.replication.rules.truncation import Divergence
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.storage.log.leader_epochs import LeaderEpochs


def level_of_cut(
    caplog: pytest.LogCaptureFixture,
    *,
    to: Divergence,
    high_watermark: int,
    loaded: int | None,
    epochs: tuple[tuple[int, int], ...] = ((0, 0), (3, 400)),
) -> tuple[int, str]:
    """The line about the cut of a log of 500 records."""
    log: Any = SimpleNamespace(
        topic_partition=TopicPartition("orders", 0),
        log_start_offset=0,
        log_end_offset=500,
        durable_end=500,
        high_watermark=high_watermark,
        loaded_high_watermark=loaded,
        epochs=LeaderEpochs(list(epochs)),
        failure=None,
        truncate_to=lambda offset: None,
    )

    def never(work: Coroutine[Any, Any, None]) -> None:
        work.close()

    replica = FollowedReplica(log, b"o" * 16, 4, clock=ManualClock(), start=never, backoff_ms=1000)
    position = replica.position
    assert position is not None
    with caplog.at_level(logging.INFO):
        replica.handle(Answered(position, ErrorCode.NONE, high_watermark=0, divergence=to))
    (line,) = caplog.records
    return line.levelno, line.getMessage()


def test_a_cut_of_what_is_known_as_committed_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    level, said = level_of_cut(caplog, to=Divergence(3, 450), high_watermark=470, loaded=470)
    assert (level, "20 COMMITTED offsets go" in said) == (logging.ERROR, True)


def test_a_tail_that_a_leader_has_called_uncommitted_is_cut_in_peace(caplog: pytest.LogCaptureFixture) -> None:
    level, said = level_of_cut(caplog, to=Divergence(3, 480), high_watermark=470, loaded=460)
    assert (level, said.endswith("has another history")) == (logging.INFO, True)
    caplog.clear()
    assert level_of_cut(caplog, to=Divergence(3, 480), high_watermark=0, loaded=None)[0] == logging.INFO


def test_a_tail_of_which_nobody_has_told_since_the_start_may_have_been_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    level, said = level_of_cut(caplog, to=Divergence(3, 480), high_watermark=0, loaded=0)
    assert (level, "20 offsets go, and any of them MAY HAVE BEEN COMMITTED" in said) == (logging.WARNING, True)


@pytest.mark.parametrize(
    ("to", "epochs"), [(Divergence(-1, 0), ((3, 0),)), (Divergence(0, 200), ((0, 0), (3, 400)))], ids=["all", "epoch"]
)
def test_no_crash_leaves_a_tail_of_more_than_one_leader(
    to: Divergence, epochs: tuple[tuple[int, int], ...], caplog: pytest.LogCaptureFixture
) -> None:
    level, said = level_of_cut(caplog, to=to, high_watermark=0, loaded=0, epochs=epochs)
    assert (level, "MAY HAVE BEEN COMMITTED" in said) == (logging.ERROR, True)
