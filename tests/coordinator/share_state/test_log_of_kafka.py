"""A partition of `__share_group_state` that Apache Kafka wrote is read as Kafka read it (share-state.md 2)."""

import base64
import zlib
from typing import Final

import pytest

from eosin.coordinator.share_state.log.loader import StateLoader
from eosin.coordinator.share_state.log.records import encoded, read_change, read_key
from eosin.coordinator.share_state.rules.decide import summary_of
from eosin.coordinator.share_states import DeliveryState, ShareStateSummary, StateBatch
from eosin.protocol.records.header import read_header
from eosin.protocol.records.scan import key_values, sound_batches

LOG: Final = zlib.decompress(
    base64.b64decode(
        "eNpjYICDOhDBtND3fghMhHGRZo35FRj9Hw5g0tMYgaQVELOmF+WXFqTkHD4fkuZUvpGrPr7j27dHIDUBcONZQQTCBLCZF2E0I1wZ"
        "iJUJdsnuoM/7UVzyCkZjuiQP7BBGPA7RgNvADNOMsJQJiGeCGSfXLqtCttTCEEZjWnqGkaCtLQg7mDEYUMDJxABXxQWlhUEBwcjA"
        "giQE1tcCdqTH3L5wFEdawmhMRy4i7MgYTDcyIUcaELBhcQ8L3D2cNRw7UNxjD6Np6B4mdPewwt3jF222G8U9LjCa2u6BWc7Dghk+"
        "QDcy5IMV/5YM3oniHh8YjemeKoLOMcFwDjsjxGqYqxjY4VYrB38WQrE6EEbTyGoOeCxMWvDTCMXqXBhNpVhgh1mqAKUVmeCxAHcP"
        "J7xkm9bHmI3inlIYTUHJxoi9ZEOYjSgAuOAhE2Jqp43ikiUwGmfIMBAMGSak7AECRuhmQ2MKDrjhITM5P6sWxT2rYTQFIcMMTYfo"
        "IQM3GxEyPEAcCnZJnI3gMhSXbIbRmC5xI+gQuA28cK9ql/4+g2LBXhhNYfXGiMWre2A0wqt8cK8aPNjAi+KSgzCaPK8CACpa6L0="
    )
)
"""Fifteen batches of one record that a broker of 4.4.0 wrote when it was sent the requests 83 to 86."""

AVAILABLE, ACKNOWLEDGED, ARCHIVED = DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED
FIRST = (StateBatch(0, 9, ACKNOWLEDGED, 1), StateBatch(10, 19, AVAILABLE, 1))
CUT = (StateBatch(7, 9, ACKNOWLEDGED, 1), StateBatch(10, 12, ARCHIVED, 1), StateBatch(13, 19, AVAILABLE, 1))
ANSWERS: Final = {
    1: (ShareStateSummary(5, 0, -1, -1), ()),
    2: (ShareStateSummary(5, 3, -1, -1), ()),
    3: (ShareStateSummary(5, 3, 0, 10), FIRST),
    4: (ShareStateSummary(5, 3, 0, 10), FIRST),
    5: (
        ShareStateSummary(5, 3, 0, 10),
        (
            StateBatch(0, 4, ACKNOWLEDGED, 1),
            StateBatch(5, 6, AVAILABLE, 2),
            StateBatch(7, 9, ACKNOWLEDGED, 1),
            StateBatch(10, 19, AVAILABLE, 1),
        ),
    ),
    7: (ShareStateSummary(5, 3, 7, 2), CUT),
    8: (ShareStateSummary(5, 3, 7, 2), CUT),
    9: (ShareStateSummary(5, 3, 7, 2), (*CUT, StateBatch(32, 33, ACKNOWLEDGED, 1))),
    13: (ShareStateSummary(0, 0, -1, -1), ()),
    14: (ShareStateSummary(1, 0, -1, -1), ()),
}
"""Kafka's own answers after so many of them."""


@pytest.mark.parametrize("count", ANSWERS)
def test_a_state_is_read_as_kafka_answered_it(count: int) -> None:
    loader = StateLoader()
    run = memoryview(LOG)
    for head in list(sound_batches(run))[:count]:
        loader.apply(run, head)
    assert not loader.broken
    state = next(iter(loader.states.values()), None)
    assert (summary_of(state), () if state is None else state.batches) == ANSWERS[count]


def test_its_records_are_written_again_byte_for_byte() -> None:
    run = memoryview(LOG)
    for head in sound_batches(run):
        batch = run[head[0] : head[0] + head[1]]
        (record,) = key_values(batch, read_header(batch))
        found = read_key(record)
        assert found is not None
        written = encoded(found.partition, read_change(found, record))
        value = None if record.value is None else bytes(record.value)
        assert (written.key, written.value) == (bytes(record.key or b""), value)
