"""`eosin lab run` as a command: what it refuses, in one sentence, before anything starts."""

from pathlib import Path

import pytest

from eosin.lab.common.errors import LabError
from eosin.lab.common.values import ReadRecord
from eosin.lab.run.command import main
from eosin.lab.run.feed import feed_in, made_feed
from eosin.lab.run.judge import Judge, id_named
from eosin.lab.run.process import Exit
from eosin.lab.run.report import line_of, summary_of
from eosin.lab.run.results import FAIL, NOT_EXERCISED, PASS, Report, Result
from eosin.lab.run.run_file import alone_in
from eosin.lab.run.staged_app import STARTS_S, AttachedApp, RunPlan
from eosin.runtime.clock import Clock, SystemClock

RECORD = ReadRecord("output", 0, 3, 0, b"k", b'{"a": [{"b": 7}]}', (("id", b"h"),))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "name the application behind --"),
        (["--scenario", "nothing", "--", "true"], 'no scenario "nothing"'),
        (["--input", "orders:many", "--", "true"], "--input is TOPIC"),
        (["--input", "orders", "--output", "orders", "--", "true"], "--output names the topics"),
        (["--feed", "1", "--", "true"], "--feed is 2 records or more"),
        (["--feed-file", "/nowhere.jsonl", "--", "true"], "cannot read --feed-file"),
        (["--id", "header:", "--", "true"], "--id is key"),
        (["--judge", " ", "--", "true"], "--judge is multiset"),
        (["--jobs", "0", "--", "true"], "--jobs is 1 or more"),
        (["--timeout", "0", "--", "true"], "--timeout above 0"),
        (["--also", "redpanda", "--", "true"], 'no behaviour "redpanda"'),
        (["--attach", "--", "true"], "--attach runs no command"),
        (["--attach", "--jobs", "2"], "one scenario at a time"),
        (["--attach", "--port", "0"], "--port is 1 to 65535"),
        (["--attach", "--reader"], "--reader judges what a command says"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert complaint in line


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with alone_in(tmp_path):
        assert main(["run", "--out", str(tmp_path), "--", "true"]) == 2
    assert f"another run writes to {tmp_path}: wait for it, or name another --out" in capsys.readouterr().err


def test_a_folder_that_cannot_be_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["run", "--out", str(tmp_path / "file"), "--", "true"]) == 2
    assert f"cannot write to {tmp_path / 'file'}: " in capsys.readouterr().err


def test_the_words_of_an_earlier_run_are_none_of_this_one(tmp_path: Path) -> None:
    (tmp_path / "instance-1.log").write_text("a record\n")
    assert staged(tmp_path).said == []


@pytest.mark.parametrize(("took_s", "most_s"), [(5, STARTS_S), (25, 50)])
def test_another_instance_may_take_twice_as_long_as_the_first_for_its_start(
    took_s: float, most_s: float, tmp_path: Path
) -> None:
    watch = _Watch()
    app = staged(tmp_path, watch)
    app.start()
    watch.ms += int(1000 * took_s)
    assert app.catches_up()
    watch.ms += 100_000
    assert app.catches_up()
    assert app.starts_s == most_s


class _Watch(SystemClock):
    """A clock that stands still."""

    ms = 1000

    def elapsed_ms(self) -> int:
        return self.ms


class _Consumed:
    """A broker whose topic is consumed already."""

    bootstrap = "127.0.0.1:9092"

    def wait_until_consumed(self, *_: object, **__: object) -> None: ...


def staged(folder: Path, clock: Clock | None = None) -> AttachedApp:
    """An application that somebody has attached."""
    plan = RunPlan((), "input", 1, ("output",), (), Judge("ids", id_named("key")), group="g")
    return AttachedApp(_Consumed(), plan, folder, clock)  # type: ignore[arg-type]


def test_a_feed_is_made_with_ids_over_all_partitions() -> None:
    feed = made_feed(5, 2)
    assert [each.partition for each in feed] == [0, 1, 0, 1, 0]
    assert len({each.key for each in feed}) == 5


def test_a_feed_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "feed.jsonl"
    file.write_text('{"value": {"n": 1}, "key": "a", "headers": {"id": "7"}}\n\n{"value": null}\n')
    first, second = feed_in(file)
    assert (first.value, first.key, first.headers) == ('{"n": 1}', "a", {"id": "7"})
    assert second.value is None
    file.write_text('{"value": 1}\n[]\n')
    with pytest.raises(LabError, match=r"feed\.jsonl:2 is no record"):
        feed_in(file)


def test_ids_are_keys_headers_or_parts_of_a_json_value() -> None:
    assert id_named("key")(RECORD) == b"k"
    assert id_named("header:id")(RECORD) == b"h"
    assert id_named("json:/a/0/b")(RECORD) == "7"
    assert id_named("json:/a/5")(RECORD) is None


def result(verdict: str, **more: object) -> Result:
    return Result("lost-commit-answer", verdict, 7, 1.25, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reference", "verdicts", "code"),
    [
        (PASS, [PASS], 0),
        (PASS, [NOT_EXERCISED, FAIL], 1),
        (FAIL, [], 2),
        (PASS, [PASS, NOT_EXERCISED], 3),
    ],
)
def test_the_exit_code_tells_the_worst(reference: str, verdicts: list[str], code: int) -> None:
    report = Report(("app",), "input", ("output",), None, result(reference), tuple(map(result, verdicts)))
    assert report.exit_code == code
    assert summary_of(report)


def test_a_failure_is_told_with_its_evidence_its_exits_and_its_cure() -> None:
    text = line_of(
        result(
            FAIL,
            kinds=("lost",),
            evidence="lost: 1 record",
            cure="Commit once.",
            of_clients=("librdkafka: abort",),
            exits=(Exit(3, ("oh",)),),
        )
    )
    assert text.splitlines() == [
        "lost-commit-answer         FAIL lost (1.2 s, seed 7)",
        "    lost: 1 record",
        "    the application exited once; the last time it",
        "    exited with 3",
        "      | oh",
        "    with librdkafka: abort",
        "    cure: Commit once.",
    ]
    assert "ended by SIGKILL" in str(Exit(-9, ()))
