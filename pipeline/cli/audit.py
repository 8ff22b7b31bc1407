"""`eosin pipeline audit PATHS` reports on transactions from the segment files of a Kafka log, without a broker.

Exit code 1 if a transaction hangs, a sequence is broken or a log is damaged; 2 for wrong arguments.
"""

import json
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eosin.pipeline.audit import MAX_TRANSACTION_TIMEOUT_MS
from eosin.pipeline.cli.arguments import PipelineParser, at_least, fail
from eosin.pipeline.cli.spark_arguments import add_spark, open_session
from eosin.pipeline.common.errors import BadPaths, require_spark

if TYPE_CHECKING:
    from eosin.pipeline.audit.findings import Findings, Row

_NAME: Final = "audit"
_SHOWN: Final = 20


def main(arguments: Sequence[str]) -> int:
    """Run it."""
    parser = PipelineParser(
        prog="eosin pipeline audit",
        description="Read the batch headers of segment files with Spark, and report on their transactions.",
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="log directory, partition or segment file, or a pattern"
    )
    parser.add_argument("--plots", type=Path, metavar="DIR", help="folder for plots and report.html")
    parser.add_argument("--out", metavar="DIR", help="folder for every table as parquet")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--max-transaction-timeout-ms",
        type=at_least(0),
        default=MAX_TRANSACTION_TIMEOUT_MS,
        metavar="MS",
        help="longest transaction that does not hang (default %(default)s, as transaction.max.timeout.ms)",
    )
    parser.add_argument(
        "--as-of", metavar="TIME", help="ISO 8601: compute ages as of this moment, for example when a copy was made"
    )
    add_spark(parser)
    options = parser.parse_args(arguments)
    try:
        as_of_ms = None if options.as_of is None else _milliseconds(options.as_of)
    except ValueError:
        return fail(_NAME, f"--as-of takes a time as 2026-01-31T12:00:00Z, and not {options.as_of!r}")
    require_spark()
    from eosin.pipeline.audit.segment_files import find_segments

    try:
        find_segments(options.paths)  # before Spark starts, which takes seconds
    except BadPaths as error:
        return fail(_NAME, str(error))
    if options.plots is not None:
        from eosin.pipeline.audit.plots import require_matplotlib

        require_matplotlib()
        try:
            options.plots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return fail(_NAME, f"--plots {options.plots}: {error.strerror}")
    with open_session(_NAME, options) as spark:
        return _audit(spark, options, as_of_ms)


def _audit(spark: Any, options: Any, as_of_ms: int | None) -> int:
    from eosin.pipeline import audit
    from eosin.pipeline.audit.findings import Findings

    report = audit.transactions(
        spark, options.paths, max_transaction_timeout_ms=options.max_transaction_timeout_ms, as_of_ms=as_of_ms
    )
    findings = Findings.of(report)
    if options.out is not None:
        report.write(options.out)
    if options.plots is not None:
        _write_plots(options.plots, report, findings, options.paths)
    print(json.dumps(findings.as_json()) if options.json else "\n".join(text_lines(findings)))
    return 0 if findings.is_clean else 1


def _write_plots(folder: Path, report: Any, findings: "Findings", paths: Sequence[str]) -> None:
    from eosin.pipeline.audit.html_report import page
    from eosin.pipeline.audit.plots import render
    from eosin.pipeline.audit.series import series_of

    plots = render(series_of(report, findings.summary))
    for name, image in plots.items():
        (folder / f"{name}.png").write_bytes(image)
    html = page(findings, plots, paths=[os.path.abspath(each) for each in paths], as_of_ms=report.as_of_ms)
    (folder / "report.html").write_text(html)


def text_lines(findings: "Findings") -> list[str]:
    """The lines for a person."""
    from eosin.pipeline.audit.plots import duration

    summary = findings.summary
    share = "" if summary["aborted_share"] is None else f", {summary['aborted_share']:.1%} of those ended"
    lines = [
        f"{summary['segments']:,} segments of {summary['log_partitions']:,} partitions:"
        f" {summary['log_records']:,} records in {summary['log_batches']:,} batches,"
        f" {summary['log_bytes'] / 2**20:,.1f} MiB",
        f"{summary['transactions']:,} transactions: {summary['committed']:,} committed,"
        f" {summary['aborted']:,} aborted{share}, {summary['open']:,} open",
    ]
    if summary["duration_p50_ms"] is not None:
        durations = [(name, summary[f"duration_{name}_ms"]) for name in ("p50", "p90", "p99", "max")]
        lines.append("durations: " + ", ".join(f"{name} {duration(value) or '0 ms'}" for name, value in durations))
    if summary["markers_without_data"]:
        lines.append(f"{summary['markers_without_data']:,} markers without data")
    lines += _listed([_hanging(row) for row in findings.hanging], summary["hanging"])
    lines += _listed([_fault(row) for row in findings.sequence_faults], summary["sequence_faults"])
    lines += _listed([_problem(row) for row in findings.problems], summary["torn_tails"] + summary["errors"])
    return [*lines, findings.verdict]


def _listed(lines: list[str], count: int) -> list[str]:
    shown = lines[:_SHOWN]
    return shown + ([f"  and {count - len(shown):,} more (--out has all)"] if count > len(shown) else [])


def _hanging(row: "Row") -> str:
    from eosin.pipeline.audit.plots import duration

    producer = f"producer {row['producer_id']} epoch {row['producer_epoch']}"
    coordinator = ""
    if row["coordinator"] == "coordinator_knows":
        coordinator = f", which its coordinator knows as {row['transactional_id']!r} in {row['state']}"
    elif row["coordinator"] == "orphan":
        coordinator = ", which no coordinator knows"
    return (
        f"  hanging: {row['topic']}-{row['partition']} from offset {row['first_offset']} on, {producer},"
        f" open for {duration(row['age_ms'])}{coordinator}"
    )


def _fault(row: "Row") -> str:
    what = "epoch" if row["what"].startswith("epoch") else "sequence"
    return (
        f"  {row['what']}: {row['topic']}-{row['partition']} at offset {row['offset']}, producer {row['producer_id']}:"
        f" {what} {row['found']} where {row['expected']} should follow"
    )


def _problem(row: "Row") -> str:
    place = f"{row['path']} at byte {row['position']}"
    return f"  {row['severity']}: {row['what'].replace('_', ' ')} in {place}: {row['detail']}"


def _milliseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp() * 1000)
