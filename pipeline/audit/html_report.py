"""The report of an audit as one HTML page: verdict, figures, plots, and tables of what needs attention.

Always true: every text from a log is escaped, and the page loads no other file.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from eosin.pipeline.audit.findings import MAX_ROWS, Findings, Row
from eosin.pipeline.audit.plots import duration, moment

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:1120px;margin:0 auto;padding:24px}
h1{font-size:24px;margin:0}h2{font-size:18px;margin:32px 0 8px}p.where{color:#666;margin:4px 0 16px}
.verdict{padding:12px 16px;border-left:6px solid;font-size:17px;font-weight:600}
.good{border-color:#1b7837;background:#eef7f0}.bad{border-color:#b2182b;background:#fbeeee}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}
.tile{border:1px solid #ddd;border-radius:6px;padding:10px 14px;min-width:140px}
.tile b{display:block;font-size:22px}.tile span{color:#666;font-size:13px}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(500px,1fr));gap:16px}img{width:100%;height:auto}
table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;padding:4px 10px 4px 0;border-bottom:1px solid #e5e5e5}
th{color:#666;font-weight:600}.scroll{overflow-x:auto}
"""


def page(findings: Findings, plots: Mapping[str, bytes], *, paths: Sequence[str], as_of_ms: int) -> str:
    """The whole page."""
    summary = findings.summary
    kind = "good" if findings.is_clean else "bad"
    where = f"{', '.join(paths)} · as of {moment(as_of_ms)} UTC"
    images = "".join(f'<img alt="{escape(name)}" src="{_data_uri(image)}">' for name, image in plots.items())
    tiles = "".join(_tiles(summary))
    tables = [
        _table("Hanging transactions", findings.hanging, summary["hanging"]),
        _table("Sequence faults", findings.sequence_faults, summary["sequence_faults"]),
        _table("Torn tails and damage", findings.problems, summary["torn_tails"] + summary["errors"]),
        _table("Transactions that readers waited for longest", findings.longest_blocks, len(findings.longest_blocks)),
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Eosin: audit of transactions</title>'
        f"<style>{_STYLE}</style><h1>Audit of transactions</h1>"
        f'<p class="where">{escape(where)}</p><p class="verdict {kind}">{escape(findings.verdict)}</p>'
        f'<div class="tiles">{tiles}</div><div class="plots">{images}</div>{"".join(tables)}</html>\n'
    )


def _tiles(summary: Row) -> list[str]:
    share = summary["aborted_share"]
    told = [
        ("transactions", f"{summary['transactions']:,}"),
        ("committed", f"{summary['committed']:,}"),
        ("aborted", f"{summary['aborted']:,}" + ("" if share is None else f" ({share:.1%})")),
        ("open", f"{summary['open']:,}"),
        ("median duration", _duration(summary["duration_p50_ms"])),
        ("99 % took at most", _duration(summary["duration_p99_ms"])),
        ("longest", _duration(summary["duration_max_ms"])),
        ("records in the logs", f"{summary['log_records']:,}"),
        ("read", f"{summary['log_bytes'] / 2**20:,.1f} MiB in {summary['segments']:,} segments"),
        ("markers without data", f"{summary['markers_without_data']:,}"),
    ]
    return [f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in told]


def _duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    return duration(milliseconds) or "0 ms"


def _table(title: str, rows: Sequence[Row], count: int) -> str:
    if not rows:
        return f"<h2>{escape(title)}</h2><p>None.</p>"
    told = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    names = [name for name in told if not (name.endswith("_ms") and f"{name[:-3]}_time" in rows[0])]
    head = "".join(f"<th>{escape(name.removesuffix('_ms').replace('_', ' '))}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_cell(name, row[name])}</td>" for name in names) + "</tr>" for row in rows)
    more = f"<p>{count - len(rows):,} more are in the tables.</p>" if count > len(rows) == MAX_ROWS else ""
    return f'<h2>{escape(title)}</h2><div class="scroll"><table><tr>{head}</tr>{body}</table></div>{more}'


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return escape(value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"))
    if name.endswith("_ms"):
        return escape(_duration(value))
    return escape(str(value))


def _data_uri(image: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(image).decode()
