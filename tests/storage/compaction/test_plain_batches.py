"""Plain batches, of one record and nobody's, take a short cut through compaction: what is left must be the same."""

import asyncio
from dataclasses import replace
from unittest.mock import patch

import pytest
from batches import NOW_MS
from compaction import COMPACT, DELETE_RETENTION_MS, compact, compacted_logs, headers, keyed, offsets, roll
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import DATA_DIR, appended

from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.storage.compaction.batch_filter import BatchFilter
from eosin.storage.compaction.key_map import KeyMap
from eosin.storage.compaction.segment_swap import Swap
from eosin.storage.results.log_results import AppendOrigin

WIDE = replace(COMPACT, internal_segment_bytes=None)
RECORDS = st.tuples(st.sampled_from(["a", "b", "c", "long" * 30]), st.sampled_from(["1", "2" * 200, "", None]))
ROUNDS = st.lists(st.lists(st.lists(RECORDS, min_size=1, max_size=2), max_size=8), min_size=1, max_size=4)


async def left(rounds: list[list[list[tuple[str, str | None]]]]) -> list[bytes]:
    """Every batch that is in the log after as many compactions as there are rounds of batches."""
    logs = compacted_logs(WIDE)
    log = await logs.open()
    for batches in rounds:
        for batch in batches:
            appended(logs.append(log, keyed(*batch)))
        appended(logs.append(log, keyed(("last", "1"))))
        roll(logs, log)
        await compact(logs)
        logs.clock.advance(DELETE_RETENTION_MS // 2 + 1)
    return [bytes(batch) for batch in log.batches()]


@settings(max_examples=60, deadline=None)
@given(ROUNDS)
def test_the_short_cut_keeps_the_same_batches_as_the_rules(rounds: list[list[list[tuple[str, str | None]]]]) -> None:
    quick = asyncio.run(left(rounds))
    with (
        patch.object(BatchFilter, "stays", lambda *_: None),
        patch.object(KeyMap, "is_distinct", property(lambda _: False)),
    ):
        assert asyncio.run(left(rounds)) == quick


async def test_a_record_without_a_key_goes() -> None:
    logs = compacted_logs(WIDE)
    log = await logs.open()
    nameless = build_batch([NewRecord(None, b"1")], timestamp=NOW_MS)
    appended(log.append(nameless, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR))
    appended(logs.append(log, keyed(("a", "1"))))
    roll(logs, log)
    await compact(logs)
    assert offsets(log) == [1]


async def test_a_log_in_which_every_key_is_new_is_clean_without_being_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    monkeypatch.setattr(Swap, "__init__", lambda *_: copies.append(1))
    logs = compacted_logs(WIDE)
    log = await logs.open()
    for name in "abc":
        appended(logs.append(log, keyed((name, "1"))))
    roll(logs, log)
    before = logs.disk.read_whole(f"{DATA_DIR}/orders-0/00000000000000000000.log")
    with patch.object(BatchFilter, "stays", side_effect=AssertionError("copied")):
        await compact(logs)
    assert (log.compaction_state.compacted_below, copies) == (3, [])
    assert logs.disk.read_whole(f"{DATA_DIR}/orders-0/00000000000000000000.log") == before
    monkeypatch.undo()
    appended(logs.append(log, keyed(("b", "2"))))
    roll(logs, log)
    await compact(logs)
    assert headers(log) == [(0, 0, 1), (2, 2, 1), (3, 3, 1)]
