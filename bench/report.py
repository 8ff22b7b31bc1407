"""The result of a benchmark, and its output."""

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    group: str
    name: str
    value: float
    unit: str
    reference: float | None = None
    """The same figure of the reference, measured in the same run."""
    reference_name: str = ""
    budget: float | None = None
    """Limit of the ratio to the reference, or of the value itself when there is no reference."""
    higher_is_better: bool = False
    values: tuple[float, ...] = ()
    """Of a figure that was taken several times: each of them. `value` is their median."""
    references: tuple[float, ...] = ()
    """The same of the reference, each taken beside that of `values`."""

    @property
    def ratios(self) -> tuple[float, ...]:
        """value / reference, of each time."""
        pairs = zip(self.values, self.references, strict=True) if self.references else ()
        return tuple(value / reference for value, reference in pairs if reference)

    @property
    def ratio(self) -> float | None:
        """value / reference; the median, if there are several."""
        if self.ratios:
            return statistics.median(self.ratios)
        return None if not self.reference else self.value / self.reference

    @property
    def met(self) -> bool | None:
        """True if the budget is kept; None without one."""
        if self.budget is None:
            return None
        measured = self.value if self.ratio is None else self.ratio
        return measured >= self.budget if self.higher_is_better else measured <= self.budget


def repeated(
    group: str,
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    references: Sequence[float] = (),
    reference_name: str = "",
    budget: float | None = None,
    higher_is_better: bool = False,
) -> Row:
    """The row of a figure that was taken several times."""
    return Row(
        group,
        name,
        statistics.median(values),
        unit,
        statistics.median(references) if references else None,
        reference_name,
        budget,
        higher_is_better,
        tuple(values),
        tuple(references),
    )


def _range(values: Sequence[float], digits: str) -> str:
    return f" [{min(values):{digits}} to {max(values):{digits}}]" if len(values) > 1 else ""


def _cells(row: Row) -> list[str]:
    reference = ""
    if row.reference is not None:
        reference = f"{row.reference:,.4g}{_range(row.references, ',.4g')} ({row.reference_name})"
    ratio = f"{row.ratio:.2f}{_range(row.ratios, '.2f')}" if row.ratio is not None else ""
    sign = ">=" if row.higher_is_better else "<="
    budget = "" if row.budget is None else f"{sign} {row.budget:g} {'met' if row.met else 'MISSED'}"
    return [row.name, f"{row.value:,.4g}{_range(row.values, ',.4g')} {row.unit}", reference, ratio, budget]


def table(rows: Sequence[Row]) -> str:
    """A Markdown table for each group."""
    lines: list[str] = []
    for group in dict.fromkeys(row.group for row in rows):
        lines += [f"### {group}", "", "| figure | value | reference | ratio | budget |", "|---|---|---|---|---|"]
        lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows if row.group == group]
        lines.append("")
    return "\n".join(lines)


def machine() -> dict[str, str]:
    """The machine, as far as figures depend on it."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.machine())


def load() -> str:
    """The processes that want to run, as means of the last minute, five, and fifteen."""
    return ", ".join(f"{each:.2f}" for each in os.getloadavg())


def write_json(rows: Sequence[Row], path: Path, loads: Sequence[str]) -> None:
    """All rows, with the machine they were measured on, and its load before and after."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": {**machine(), "load before and after": " / ".join(loads)},
        "rows": [asdict(row) | {"ratio": row.ratio, "met": row.met} for row in rows],
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
