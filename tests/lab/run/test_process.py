"""The words of an application, as a report has them."""

from pathlib import Path

from eosin.lab.run.process import LAST_LINES, LINE_CHARS, Supervised


def test_the_last_lines_are_few_and_short_whatever_an_application_says(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text("".join(f"line {number}\n" for number in range(100)) + "x" * 10_000)
    lines = Supervised(["app"], "127.0.0.1:9092", log, restarts=0).last_lines()
    assert len(lines) == LAST_LINES
    assert lines[-2] == "line 99"
    assert lines[-1] == "x" * LINE_CHARS + "..."
