"""`eosin pipeline audit` and `verify`: what is wrong is said in one sentence, before Spark is started."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eosin.cli.__main__ import main
from eosin.protocol.records.batch import NewRecord, build_batch, build_control_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A directory with one committed transaction."""
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    data = build_batch(
        [NewRecord(b"k", b"v")], timestamp=1000, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
    )
    end = build_control_batch(
        producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp=1250, base_offset=1
    )
    (folder / f"{0:020}.log").write_bytes(data + end)
    return folder.parent


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--help"]) == 0
    said = capsys.readouterr().out
    assert "  audit " in said
    assert "  verify " in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["audit", "/nowhere"], "eosin pipeline audit: there is no /nowhere\n"),
        (["audit", "/nowhere/*"], "eosin pipeline audit: there is no /nowhere/*\n"),
        (["audit"], "eosin pipeline audit: the following arguments are required: PATH\n"),
        (
            ["audit", "/", "--as-of", "noon"],
            "eosin pipeline audit: --as-of takes a time as 2026-01-31T12:00:00Z, and not 'noon'\n",
        ),
        (
            ["verify", "--input", "a", "--output", "b", "--on", "src"],
            "eosin pipeline verify: the following arguments are required: --bootstrap-server\n",
        ),
    ],
)
def test_a_wrong_argument_is_refused_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["pipeline", *arguments])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert (code, capsys.readouterr().err) == (2, sentence)


def test_a_folder_without_a_log_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "audit", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"eosin pipeline audit: {tmp_path} holds no segment files: ")


def test_a_file_as_the_folder_for_plots_is_refused(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = log.parent / "taken"
    taken.write_text("")
    assert main(["pipeline", "audit", str(log), "--plots", str(taken)]) == 2
    assert capsys.readouterr().err == f"eosin pipeline audit: --plots {taken}: File exists\n"


def test_a_missing_java_is_reported(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda _: None))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["pipeline", "audit", str(log)]) == 1
    assert capsys.readouterr().err.startswith("eosin pipeline audit: there is no java on the PATH")


@pytest.mark.process
@pytest.mark.parametrize("module", ["pyspark", "matplotlib"])
def test_a_missing_package_is_reported_in_one_sentence(module: str, log: Path) -> None:
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from eosin.cli.__main__ import main\n"
        f"sys.exit(main(['pipeline', 'audit', {str(log)!r}, '--plots', {str(log / 'plots')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    wanted = f"{module} is missing: install Eosin with its Spark extra, pip install 'eosin[spark]'\n"
    assert done.stderr == f"eosin pipeline audit: {wanted}"


def test_an_audit_writes_plots_and_prints_json(
    spark: "SparkSession", log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plots = tmp_path / "plots"
    assert main(["pipeline", "audit", str(log), "--plots", str(plots), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["clean"], told["summary"]["committed"], told["summary"]["duration_max_ms"]) == (True, 1, 250)
    assert sorted(each.name for each in plots.iterdir()) == [
        "durations.png",
        "lso_lag.png",
        "open.png",
        "outcomes.png",
        "report.html",
    ]
    assert "Nothing hangs, no sequence is broken." in (plots / "report.html").read_text()
