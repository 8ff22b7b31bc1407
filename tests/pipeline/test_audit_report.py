"""Plots and the page of an audit: they show what there is, say so where there is nothing, and need nothing else."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pyspark")

from eosin.pipeline.audit.findings import Findings
from eosin.pipeline.audit.html_report import page
from eosin.pipeline.audit.plots import PLOTS, duration, render
from eosin.pipeline.audit.series import BINS, OUTCOMES, Series
from eosin.pipeline.cli.audit import text_lines

NOTHING = Series(0, 0, {}, {each: [] for each in OUTCOMES}, [], {}, 0)
SOME = Series(
    1_700_000_000_000,
    1_700_000_120_000,
    {"committed": {10.0: 3, 100.0: 1}, "aborted": {1.0: 1}},
    {"committed": [1] * BINS, "aborted": [0] * BINS, "open": [0] * (BINS - 1) + [1]},
    [1] * BINS,
    {"orders-0": [0.0] * (BINS - 1) + [7.0]},
    2,
)


def findings(**summary: Any) -> Findings:
    counts: dict[str, Any] = dict.fromkeys(
        ("transactions", "committed", "aborted", "open", "hanging", "sequence_faults", "errors", "torn_tails",
         "markers_without_data", "segments", "log_partitions", "log_records", "log_batches", "log_bytes"), 0,
    )  # fmt: skip
    counts |= dict.fromkeys(("aborted_share", *(f"duration_{each}_ms" for each in ("p50", "p90", "p99", "max"))))
    return Findings(counts | summary, [], [], [], [])


@pytest.mark.parametrize("series", [SOME, NOTHING], ids=["some", "nothing"])
def test_every_plot_is_a_png(series: Series) -> None:
    plots = render(series)
    assert list(plots) == list(PLOTS)
    assert all(image.startswith(b"\x89PNG") and len(image) > 5000 for image in plots.values())


def test_every_plot_has_a_title_and_a_sentence_if_it_is_empty() -> None:
    from matplotlib.figure import Figure

    for draw in PLOTS.values():
        axes, empty = Figure().add_subplot(), Figure().add_subplot()
        draw(axes, SOME)
        assert axes.get_title(loc="left")
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        draw(empty, NOTHING)
        (sentence,) = [each.get_text() for each in empty.texts]
        assert sentence.endswith(".")


def test_the_html_report_loads_nothing() -> None:
    html = page(findings(), render(SOME), paths=["/logs"], as_of_ms=0)
    HTMLParser().feed(html)
    assert html.count('src="data:image/png;base64,') == len(PLOTS)
    assert not re.search(r"(src|href)=\"(?!data:)|url\(|@import|<script", html)


def test_names_from_a_log_are_escaped_in_the_html_report() -> None:
    row = {"topic": "<b>", "partition": 0, "begin_time": datetime(2026, 1, 2, tzinfo=UTC), "age_ms": 90_000}
    html = page(findings(hanging=1)._replace(hanging=[row]), {}, paths=["<i>"], as_of_ms=0)
    assert "<b>&lt;" not in html
    assert "<td>&lt;b&gt;</td>" in html
    assert "&lt;i&gt;" in html
    assert "<td>2026-01-02 00:00:00</td><td>1.5 min</td>" in html


def test_an_empty_column_is_left_out_of_the_html_report() -> None:
    rows = [
        {"topic": "t", "transactional_id": None, "state": None},
        {"topic": "u", "transactional_id": None, "state": 1},
    ]
    html = page(findings(hanging=2)._replace(hanging=rows), {}, paths=["/logs"], as_of_ms=0)
    assert "<th>topic</th><th>state</th></tr>" in html


def test_the_plot_of_durations_names_the_longest_and_has_round_ticks() -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    PLOTS["durations"](axes, SOME._replace(durations={"committed": {10.0: 900, 600_000.0: 1}}, longest_ms=660_000.0))
    assert [each.get_text() for each in axes.texts] == ["longest: 11 min"]
    assert [each.get_text() for each in axes.get_xticklabels()] == ["10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min"]


def test_long_partition_names_keep_their_ends_in_the_legend() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    PLOTS["lso_lag"](
        figure.add_subplot(), SOME._replace(lag={f"{'x' * 60}-11": [7.0] * BINS, "orders-0": [1.0] * BINS})
    )
    (legend,) = figure.legends
    assert [each.get_text() for each in legend.get_texts()] == [f"{'x' * 14}…{'x' * 11}-11 (7)", "orders-0 (1)"]


def test_the_verdict_counts_what_needs_attention() -> None:
    assert findings().is_clean
    assert findings(torn_tails=3).is_clean
    assert findings(hanging=1, errors=2).verdict == "Needs attention: 1 hanging transaction, 2 damaged places."
    assert not findings(sequence_faults=1).is_clean


def test_the_text_report_names_hanging_transactions_and_sequence_faults() -> None:
    hanging = {
        "topic": "t", "partition": 0, "first_offset": 7, "producer_id": 5, "producer_epoch": 1, "age_ms": 3_600_000,
        "coordinator": "orphan",
    }  # fmt: skip
    fault = {"topic": "t", "partition": 0, "offset": 9, "producer_id": 5, "what": "gap", "expected": 3, "found": 5}
    lines = text_lines(
        findings(hanging=1, sequence_faults=30, aborted_share=0.25)._replace(hanging=[hanging], sequence_faults=[fault])
    )
    assert "hanging: t-0 from offset 7 on, producer 5 epoch 1, open for 1 h, which no coordinator knows" in lines[2]
    assert lines[3].endswith("gap: t-0 at offset 9, producer 5: sequence 5 where 3 should follow")
    assert lines[4] == "  and 29 more (--out has all)"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, ""),
        (0.5, "0.5 ms"),
        (250, "250 ms"),
        (1500, "1.5 s"),
        (59_999, "60 s"),
        (7_200_000, "2 h"),
        (2e11, "2,315 d"),
    ],
)
def test_durations_are_written_as_people_write_them(milliseconds: float, text: str) -> None:
    assert duration(milliseconds) == text
