"""The result of a benchmark, and its output."""

import json
import platform
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

    @property
    def ratio(self) -> float | None:
        """value / reference."""
        return None if not self.reference else self.value / self.reference

    @property
    def met(self) -> bool | None:
        """True if the budget is kept; None without one."""
        if self.budget is None:
            return None
        measured = self.value if self.ratio is None else self.ratio
        return measured >= self.budget if self.higher_is_better else measured <= self.budget


def _cells(row: Row) -> list[str]:
    reference = f"{row.reference:,.4g} ({row.reference_name})" if row.reference is not None else ""
    ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
    sign = ">=" if row.higher_is_better else "<="
    budget = "" if row.budget is None else f"{sign} {row.budget:g} {'met' if row.met else 'MISSED'}"
    return [row.name, f"{row.value:,.4g} {row.unit}", reference, ratio, budget]


def table(rows: Sequence[Row]) -> str:
    """A Markdown table for each group."""
    lines: list[str] = []
    for group in dict.fromkeys(row.group for row in rows):
        lines += [f"### {group}", "", "| figure | value | reference | ratio | budget |", "|---|---|---|---|---|"]
        lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows if row.group == group]
        lines.append("")
    return "\n".join(lines)


def write_json(rows: Sequence[Row], path: Path) -> None:
    """All rows, with the machine they were measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "system": platform.platform(), "processor": platform.machine()}
    document = {"machine": machine, "rows": [asdict(row) | {"ratio": row.ratio, "met": row.met} for row in rows]}
    path.write_text(json.dumps(document, indent=2) + "\n")


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
