"""What other brokers were known to get wrong about producers in a log (transactions.md 13), with the numbers given
there. docs/semantics.md has the whole list, and which test stands for which."""

import pytest
from batches import NOW_MS, data, marker
from logs import Logs, appended

from eosin.protocol.errors import ErrorCode
from eosin.storage.log.config import LogConfig
from eosin.storage.results.log_results import Appended, Refused

FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED
DAY_MS = 86_400_000
SMALL = LogConfig(internal_segment_bytes=300)


@pytest.mark.parametrize("killed", [False, True], ids=["clean stop", "kill -9"])
async def test_b13_the_coordinators_epoch_is_known_after_a_restart(killed: bool) -> None:
    logs = Logs()
    log = await logs.open()
    log.append_marker(marker(1, 0, commit=True, coordinator_epoch=7), now_ms=NOW_MS)
    log = await logs.start_again(logs.fake.killed()) if killed else await logs.reopen()
    late = log.append_marker(marker(1, 0, commit=True, coordinator_epoch=6), now_ms=NOW_MS)
    assert isinstance(late, Refused)
    assert late.error is FENCED


async def test_b13_a_coordinators_epoch_that_goes_back_in_a_log_does_not_keep_it_from_being_read() -> None:
    logs = Logs()
    log = await logs.open()
    log.append_marker(marker(1, 0, commit=True, coordinator_epoch=7), now_ms=logs.clock.now_ms())
    logs.clock.advance(DAY_MS)
    assert log.expire_producers(logs.clock.now_ms(), after_ms=DAY_MS) == 1
    # Nobody remembers the 7 now, so that an older coordinator is believed.
    appended(log.append_marker(marker(1, 0, commit=False, coordinator_epoch=3), now_ms=logs.clock.now_ms()))
    log = await logs.start_again(logs.fake.killed())
    assert log.log_end_offset == 2
    assert [each.coordinator_epoch for each in log.producers()] == [3]


@pytest.mark.parametrize("killed", [False, True], ids=["clean stop", "kill -9"])
async def test_b28_a_producer_whose_records_were_deleted_is_known_all_the_same(killed: bool) -> None:
    logs = Logs(config=SMALL)
    log = await logs.open()
    for sequence in range(10):
        appended(logs.append(log, data(pid=1, epoch=0, seq=sequence)))
    for _ in range(10):  # so that not even the last segment has anything of the producer
        appended(logs.append(log, data()))
    assert await log.delete_records_before(-1) == ErrorCode.NONE
    await logs.manager.apply_retention(NOW_MS)
    assert log.segments.bases[0] >= 10
    if killed:
        await logs.manager.checkpoint(force=True)
        log = await logs.start_again(logs.fake.killed())
    else:
        log = await logs.reopen()
    assert logs.append(log, data(pid=1, epoch=0, seq=9)) == Appended(9, 9, -1, 20, duplicate=True)
    gap = logs.append(log, data(pid=1, epoch=0, seq=12))
    assert isinstance(gap, Refused)
    assert gap.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
