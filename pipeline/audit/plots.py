"""The plots of an audit as PNG: durations and outcomes of transactions, open transactions, and the lag of readers.

Always true: every plot has a title and units on both axes, and a sentence if it has no data; an outcome has the same
colour in all plots, and colour-blind people can distinguish the colours.
"""

import io
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from eosin.pipeline.audit.joining import ABORTED, COMMITTED, OPEN
from eosin.pipeline.audit.series import BINS, OUTCOMES, Series
from eosin.pipeline.common.errors import MissingDependency

COLOURS: Final[Mapping[str, str]] = {COMMITTED: "#2a78b8", ABORTED: "#e08214", OPEN: "#b2182b"}
_LINES: Final = ("#2a78b8", "#e08214", "#1b9e77", "#7b3294", "#b2182b", "#555555")
_SIZE: Final = (6.2, 3.7)
_DPI: Final = 160
"""Text stays readable when two plots stand side by side on a page."""
_GREY: Final = "#555555"
_NAME_LENGTH: Final = 28


def require_matplotlib() -> None:
    """Raise MissingDependency where it is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            "matplotlib is missing: install Eosin with its Spark extra, pip install 'eosin[spark]'"
        ) from error


def render(series: Series) -> dict[str, bytes]:
    """The plots by name, as PNG files."""
    require_matplotlib()
    return {name: _png(draw, series) for name, draw in PLOTS.items()}


def _png(draw: Callable[[Any, Series], None], series: Series) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    draw(axes, series)
    target = io.BytesIO()
    figure.savefig(target, format="png")
    return target.getvalue()


def _draw_durations(axes: Any, series: Series) -> None:
    axes.set_title("How long transactions took", loc="left", weight="bold")
    axes.set_xlabel("from first record to last marker (logarithmic)")
    axes.set_ylabel("transactions")
    bounds = sorted({bound for counts in series.durations.values() for bound in counts})
    if not bounds:
        _nothing(axes, "No transaction has ended.")
        return
    below = dict.fromkeys(bounds, 0)
    growth = 10 ** (1 / 8)
    for outcome in (COMMITTED, ABORTED):
        counts = series.durations.get(outcome, {})
        if not counts:
            continue
        heights = [counts.get(bound, 0) for bound in bounds]
        widths = [bound * (growth - 1) for bound in bounds]
        axes.bar(bounds, heights, widths, bottom=list(below.values()), align="edge", color=COLOURS[outcome],
                 edgecolor="white", linewidth=0.5, label=f"{outcome} ({sum(heights):,})")  # fmt: skip
        below = {bound: below[bound] + height for bound, height in zip(bounds, heights, strict=True)}
    axes.set_xscale("log")
    least, most = bounds[0] / 1.5, bounds[-1] * growth * 1.5
    axes.set_xlim(least, most)
    ticks = [each for each in _ROUND_MS if least <= each <= most]
    axes.set_xticks(ticks, [duration(each) for each in ticks])
    axes.set_xticks([], minor=True)
    # A few long transactions matter most, and their bars are too small to be seen.
    axes.annotate(
        f"longest: {duration(series.longest_ms) or '0 ms'}",
        xy=(min(max(series.longest_ms, least), most), 0),
        xytext=(0, 24),
        textcoords="offset points",
        ha="right",
        fontsize="small",
        arrowprops={"arrowstyle": "->", "color": _GREY},
    )
    _whole_numbers(axes)
    _legend_below(axes)


def _draw_outcomes(axes: Any, series: Series) -> None:
    axes.set_title("How transactions ended, over time", loc="left", weight="bold")
    axes.set_ylabel(f"transactions per {duration(series.width_ms) or 'interval'}")
    if series.is_empty:
        _nothing(axes, "There are no transactions in these logs.")
        return
    starts = _days(series)[:-1]
    below = [0] * BINS
    for outcome in OUTCOMES:
        counts = series.outcomes[outcome]
        if not sum(counts):
            continue
        label = f"{outcome} ({sum(counts):,})" + (", where it began" if outcome == OPEN else "")
        axes.bar(
            starts, counts, series.width_ms / _DAY_MS, bottom=below, align="edge", color=COLOURS[outcome], label=label
        )
        below = [before + count for before, count in zip(below, counts, strict=True)]
    _time_axis(axes, series)
    _whole_numbers(axes)
    _legend_below(axes)


def _draw_open(axes: Any, series: Series) -> None:
    axes.set_title("Transactions open at once, over time", loc="left", weight="bold")
    axes.set_ylabel(f"on average in {duration(series.width_ms) or 'an interval'}")
    if series.is_empty:
        _nothing(axes, "There are no transactions in these logs.")
        return
    steps = [*series.open, series.open[-1]]
    axes.fill_between(_days(series), steps, step="post", color=COLOURS[COMMITTED], alpha=0.35, linewidth=0)
    axes.step(_days(series), steps, where="post", color=COLOURS[COMMITTED], linewidth=1.2)
    axes.set_ylim(bottom=0)
    _time_axis(axes, series)


def _draw_lag(axes: Any, series: Series) -> None:
    axes.set_title("What read_committed readers waited for", loc="left", weight="bold")
    axes.set_ylabel("offsets behind the end")
    if not series.lag:
        _nothing(axes, "No open transaction has held the last stable offset back.")
        return
    for (name, lag), colour in zip(series.lag.items(), _LINES, strict=False):
        axes.step(
            _days(series),
            [*lag, lag[-1]],
            where="post",
            color=colour,
            linewidth=1.2,
            label=f"{_short(name)} ({max(lag):,.0f})",
        )
    axes.set_ylim(bottom=0)
    _time_axis(axes, series)
    _whole_numbers(axes)
    shown, all_of_them = len(series.lag), len(series.lag) + series.left_out
    which = f", the worst {shown} of {all_of_them}" if series.left_out else ""
    _legend_below(axes, f"partitions{which} (at most)", columns=2)


PLOTS: Final[Mapping[str, Callable[[Any, Series], None]]] = {
    "outcomes": _draw_outcomes,
    "durations": _draw_durations,
    "open": _draw_open,
    "lso_lag": _draw_lag,
}
"""The names of the files and the functions that draw them, in the order of the report."""

_DAY_MS: Final = 86_400_000
_ROUND_MS: Final = (
    *(1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000, 8_640_000_000),
)
"""Round durations for the ticks of an axis."""
_UNITS: Final = ((86_400_000.0, "d"), (3_600_000.0, "h"), (60_000.0, "min"), (1000.0, "s"), (1.0, "ms"))


def duration(milliseconds: float) -> str:
    """A duration for people: 250 ms, 1.5 s, 3 min. Empty for 0."""
    for unit, name in _UNITS:
        if milliseconds >= unit:
            count = milliseconds / unit
            return f"{count:,.0f} {name}" if count >= 100 else f"{count:.3g} {name}"
    return f"{milliseconds:.2g} ms" if milliseconds > 0 else ""


def _days(series: Series) -> list[float]:
    """The borders of the intervals, in the days of matplotlib."""
    return [(series.begin_ms + index * series.width_ms) / _DAY_MS for index in range(BINS + 1)]


def _time_axis(axes: Any, series: Series) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(tz=UTC)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC, show_offset=False))
    axes.set_xlim(series.begin_ms / _DAY_MS, series.end_ms / _DAY_MS)
    axes.set_xlabel(f"time (UTC), from {moment(series.begin_ms)} to {moment(series.end_ms)}")


def moment(milliseconds: int) -> str:
    """A time for people, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _legend_below(axes: Any, title: str | None = None, columns: int = 3) -> None:
    axes.get_figure().legend(
        frameon=False, title=title, alignment="left", fontsize="small", ncols=columns, loc="outside lower left"
    )


def _short(name: str) -> str:
    """A long name without its middle, so that the partition at its end stays."""
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH // 2]}…{name[-_NAME_LENGTH // 2 :]}"


def _whole_numbers(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _nothing(axes: Any, sentence: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("")
    axes.set_ylabel("")
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.text(0.5, 0.5, sentence, transform=axes.transAxes, ha="center", va="center", color=_GREY, size=12)
