"""What the log says of peers that are refused: a line for each peer and reason, then counts."""

import logging

import pytest

from eosin.network.refusal_log import RefusalLog


def refuse(refusals: RefusalLog, host: str = "10.0.0.5", reason: str = "nonsense", **how: str) -> bool:
    return refusals.note(host, reason, peer=f"{host}:50000", listener="PLAINTEXT", **how)


def test_the_first_of_a_peer_and_reason_is_a_line_and_the_next_are_a_number(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    assert [refuse(refusals, detail=str(number)) for number in range(1000)] == [False] + [True] * 999
    assert refuse(refusals, reason="a large frame") is False
    assert refuse(refusals, host="10.0.0.6") is False
    assert [record.getMessage() for record in caplog.records] == [
        "closing a connection: nonsense: 0",
        "closing a connection: a large frame",
        "closing a connection: nonsense",
    ]
    caplog.clear()
    refusals.report()
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert told.getMessage() == "closed more connections: nonsense"
    assert "999" in str(vars(told))


def test_a_peer_that_stays_away_is_forgotten_and_one_that_goes_on_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    refuse(refusals)
    refuse(refusals)
    refusals.report()
    assert refuse(refusals) is True
    refusals.report()
    refusals.report()
    caplog.clear()
    refusals.report()
    assert not caplog.records
    assert refuse(refusals) is False, "after ten quiet seconds it is news again"


def test_more_peers_than_are_told_apart_share_a_count(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog(max_kinds=3)
    for number in range(100):
        refuse(refusals, host=f"10.0.0.{number}")
    assert len(caplog.records) == 4
    caplog.clear()
    refusals.report()
    assert len(caplog.records) == 1
    assert "96" in str(vars(caplog.records[0]))
