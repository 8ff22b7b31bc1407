"""Batches of somebody else under the producer id of a transactional producer, where the partition has forgotten that
producer, or never stops being restarted (transactions.md 6.2.4)."""

import pytest
from batches import NOW_MS, data, marker
from logs import Logs, appended
from manual_clock import ManualClock

from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import batches
from eosin.storage.log.partition_log import PartitionLog
from eosin.storage.results.log_results import Refused

OWNER = 7
WEEK_MS = 7 * 86_400_000
DAY_MS = 86_400_000
FORGED = 2000
PER_RUN = 250


def owners(log: PartitionLog, start: int) -> list[tuple[int, int]]:
    """The offset and the first sequence of each transactional batch of data from `start` on."""
    return [
        (header.base_offset, header.base_sequence)
        for run in log.runs()
        for _, header in batches(run)
        if header.base_offset >= start and header.is_transactional and not header.is_control
    ]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("ahead", [0, 1, 32_000])
@pytest.mark.parametrize("restart", ["none", "clean", "kill"])
@pytest.mark.parametrize("sequences_go_on", [True, False])
async def test_an_id_forged_after_a_week_of_quiet_takes_nothing_from_its_owner(
    commit: bool, ahead: int, restart: str, sequences_go_on: bool
) -> None:
    """The owner's batches are its own, whether its sequences go on (TV1) or begin again in a new epoch."""
    logs = Logs(clock=ManualClock(NOW_MS))
    log = await logs.open()
    for sequence in range(3):
        appended(logs.append(log, data(pid=OWNER, epoch=4, seq=sequence, txn=True)))
    appended(log.append_marker(marker(OWNER, 4, commit=True), now_ms=logs.clock.now_ms()))
    logs.clock.advance(WEEK_MS)
    assert log.expire_producers(logs.clock.now_ms(), after_ms=DAY_MS) == 1
    epoch, first = (4, 3) if sequences_go_on else (5, 0)
    forged = 3
    for sequence in range(first, first + forged):  # what the owner would send next, and is told to have sent
        appended(logs.append(log, data(pid=OWNER, epoch=epoch + ahead, seq=sequence)))
    if restart == "clean":
        log = await logs.reopen()
    elif restart == "kill":
        log = await logs.start_again()
    start = log.log_end_offset
    for sequence in range(first, first + 5):
        written = appended(logs.append(log, data(pid=OWNER, epoch=epoch, seq=sequence, txn=True)))
        assert (written.base_offset, written.duplicate) == (start + sequence - first, False)
        again = appended(logs.append(log, data(pid=OWNER, epoch=epoch, seq=sequence, txn=True)))
        assert (again.base_offset, again.duplicate) == (written.base_offset, True)
        outside = logs.append(log, data(pid=OWNER, epoch=epoch + ahead, seq=sequence + 1))
        assert isinstance(outside, Refused)
    end = appended(log.append_marker(marker(OWNER, epoch, commit=commit), now_ms=logs.clock.now_ms())).base_offset
    late = logs.append(log, data(pid=OWNER, epoch=epoch + ahead, seq=first + 5))
    assert isinstance(late, Refused)
    assert late.error in (ErrorCode.INVALID_TXN_STATE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.log_end_offset == end + 1 == start + 6
    assert owners(log, start) == [(start + index, first + index) for index in range(5)]
    log = await logs.start_again()  # everything is read once more
    again = appended(logs.append(log, data(pid=OWNER, epoch=epoch, seq=first + 4, txn=True)))
    assert (again.base_offset, again.duplicate) == (start + 4, True)
    appended(logs.append(log, data(pid=OWNER, epoch=epoch, seq=first + 5, txn=True)))


async def test_two_thousand_forged_epochs_over_restarts_leave_the_owner_its_own() -> None:
    """Every epoch up to then is forged, the broker is stopped and killed in between: the owner begins in epoch 0, and
    after its marker nothing else is written."""
    logs = Logs(clock=ManualClock(NOW_MS))
    log = await logs.open()
    for epoch in range(FORGED):
        appended(logs.append(log, data(pid=OWNER, epoch=epoch, seq=0)))
        if epoch % PER_RUN == PER_RUN - 1:
            log = await (logs.reopen() if epoch // PER_RUN % 2 else logs.start_again())
    for epoch in range(3):
        start = log.log_end_offset
        for sequence in range(2):
            written = appended(logs.append(log, data(pid=OWNER, epoch=epoch, seq=sequence, txn=True)))
            assert (written.base_offset, written.duplicate) == (start + sequence, False)
            log = await logs.start_again()
            again = appended(logs.append(log, data(pid=OWNER, epoch=epoch, seq=sequence, txn=True)))
            assert (again.base_offset, again.duplicate) == (written.base_offset, True)
        appended(log.append_marker(marker(OWNER, epoch, commit=True), now_ms=logs.clock.now_ms()))
        log = await logs.start_again()
        for forged in (epoch, epoch + 1, FORGED, 32_767):
            late = logs.append(log, data(pid=OWNER, epoch=forged, seq=0))
            assert isinstance(late, Refused) or late.duplicate, forged
        assert log.log_end_offset == start + 3
