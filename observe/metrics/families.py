"""`Family`: the numbers of one metric as they were read, with the text of their labels (console.md 4.2).

Always true: a family holds texts and numbers and nothing else, so that a hundred thousand of them give the garbage
collector nothing to look at.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

Row = tuple[Sequence[str], float]
"""Label values and a number."""

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
NO_LABELS: Final = ("",)


class Distribution(NamedTuple):
    """One histogram's numbers; the last of `counts` is for what is above all bounds."""

    labels: Sequence[str]
    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


class Family(NamedTuple):
    """One metric."""

    name: str
    """Of a counter with its `_total`."""
    text: str
    kind: str
    keys: Sequence[str]
    """The text after the name in each line: a suffix of a histogram, and the labels."""
    numbers: Sequence[float]
    """One for each key."""


def labels_text(names: Sequence[str], values: Sequence[str]) -> str:
    """`{topic="orders",partition="0"}`, with what a label's value may not hold escaped; empty without labels."""
    if not names:
        return ""
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)]) + "}"


def counter(name: str, text: str, rows: Iterable[Row], *labels: str) -> Family:
    """A counter; `name` ends in `_total`."""
    return _of_rows(name, text, COUNTER, rows, labels)


def gauge(name: str, text: str, rows: Iterable[Row], *labels: str) -> Family:
    """A gauge."""
    return _of_rows(name, text, GAUGE, rows, labels)


def column(name: str, text: str, keys: Sequence[str], numbers: Sequence[float]) -> Family:
    """A gauge of which the texts of the labels are there already (`labels_text`)."""
    return Family(name, text, GAUGE, keys, numbers)


def single(name: str, text: str, number: float) -> Family:
    """A gauge without labels."""
    return Family(name, text, GAUGE, NO_LABELS, (number,))


def histogram(name: str, text: str, distributions: Iterable[Distribution], *labels: str) -> Family:
    """A histogram."""
    keys: list[str] = []
    numbers: list[float] = []
    for each in distributions:
        own = labels_text(labels, each.labels)
        below = [str(float(bound)) for bound in each.bounds] + ["+Inf"]
        keys += [f"_bucket{labels_text((*labels, 'le'), (*each.labels, bound))}" for bound in below]
        keys += [f"_sum{own}", f"_count{own}"]
        numbers += [*accumulate(each.counts), each.total, sum(each.counts)]
    return Family(name, text, HISTOGRAM, keys, numbers)


def _of_rows(name: str, text: str, kind: str, rows: Iterable[Row], labels: Sequence[str]) -> Family:
    keys: list[str] = []
    numbers: list[float] = []
    for values, number in rows:
        keys.append(labels_text(labels, values))
        numbers.append(number)
    return Family(name, text, kind, keys, numbers)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
