"""Durations as Java reads them (`Duration.parse`), down to zero."""

import pytest

from eosin.runtime.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1M", 60_000),
        ("P2DT3H4M5.678S", 183_845_678),
        ("pt1.5s", 1500),
        ("PT1,25S", 1250),
        ("PT7.S", 7000),
        ("PT0S", 0),
        ("+P1D", 86_400_000),
        ("PT1H-30M", 1_800_000),
        ("-PT-1H", 3_600_000),
        ("PT1M-0.5S", 59_500),
        ("PT0.000000001S", 0),
    ],
)
def test_a_duration_is_read_in_milliseconds(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "P1W",
        "P1Y",
        "PT1",
        "1H",
        "Pbanana",
        "PT1.2M",
        "PT1M1H",
        " PT1M",
        "PT1M\n",
        "P\u0661D",
        "-PT1H",
        "PT-1S",
        "P" + "9" * 400 + "D",
        "P" + "9" * 5000 + "D",
        "PT9223372036854775808S",
    ],
)
def test_what_java_does_not_read_and_what_is_below_zero_is_no_duration(text: str) -> None:
    assert duration_ms(text) is None
