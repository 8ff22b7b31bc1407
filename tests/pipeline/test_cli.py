"""`eosin pipeline` as a command of Eosin's."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from broker_process import BrokerProcess

from eosin.cli.__main__ import main
from eosin.client.client import Client
from eosin.pipeline.cli.arguments import trigger
from eosin.pipeline.sink.batch_transactions import BatchTransactions

pytestmark = pytest.mark.process


def test_eosin_pipeline_help_shows_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--help"]) == 0
    assert "usage: eosin pipeline COMMAND" in capsys.readouterr().out


def test_an_unknown_command_is_refused_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "fly"]) == 2
    assert capsys.readouterr().err.startswith("eosin pipeline: no command 'fly'; the commands are ")


def test_a_broker_does_not_import_the_pipeline() -> None:
    code = (
        "import sys, eosin.cli.__main__ as m; m.main(['--help']);"
        "sys.exit(any(name.startswith(('eosin.pipeline', 'pyspark')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_a_missing_package_is_reported_in_one_sentence() -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from eosin.pipeline.common.errors import MissingDependency\n"
        "try:\n    from eosin.pipeline import session\nexcept MissingDependency as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "pyspark is missing: install Eosin with its Spark extra, pip install 'eosin[spark]'\n"


def test_public_names_resolve_in_any_order_of_imports() -> None:
    pytest.importorskip("pyspark")
    code = "from eosin.pipeline import TxnSink, session; assert callable(session); assert callable(TxnSink)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


RUN = ["pipeline", "run", "--bootstrap-server", "127.0.0.1:1", "--checkpoint", "c", "--input", "i", "--output", "o"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pipeline", "run"], "the following arguments are required: MODULE:FUNC, --bootstrap-server, --checkpoint"),
        ([*RUN, "orders"], "'orders' names no function: write MODULE:FUNC, for example orders:totals"),
        ([*RUN, "nowhere.at.all:f"], "there is no module 'nowhere.at.all', neither installed nor in "),
        ([*RUN, "json:fly"], "module 'json' has no function 'fly'"),
        ([*RUN, "json:loads", "--conf", "x"], "--conf takes NAME=VALUE, and not 'x'"),
        ([*RUN, "json:loads", "--set", "task.timeout=1"], "a pipeline has no setting 'task.timeout'"),
        ([*RUN, "json:loads", "--set", "task.timeout.ms=soon"], "task.timeout.ms is 'soon'"),
        (
            [*RUN, "json:loads", "--trigger", "soon"],
            "--trigger: must be available-now or a time as 2s or 500ms, not 'soon'",
        ),
        ([*RUN, "json:loads", "--trigger", "real-time"], "--trigger: has no real-time, as this command reports"),
        ([*RUN, "json:loads", "--trigger", "2"], "--trigger: must be available-now or a time as 2s or 500ms, not '2'"),
        ([*RUN, "json:loads", "--max-rows", "0"], "argument --max-rows: must be a number from 1 on, not '0'"),
        ([*RUN, "json:loads", "--max-failures", "many"], "--max-failures: must be a number from 0 on, not 'many'"),
        (
            ["pipeline", "example", "orders", "--records", "0"],
            "argument --records: must be a number from 1 on, not '0'",
        ),
        (
            ["pipeline", "example", "orders", "--crash-every", "-1"],
            "--crash-every: must be a number from 1 on, not '-1'",
        ),
        ([*RUN, "json:loads", "--route", "sea"], "argument --route: invalid choice: 'sea'"),
        ([*RUN, "json:loads", "--conf", "spark.speculation=true"], "spark.speculation is true and must be false"),
        (["pipeline", "example", "tetris"], "argument example: invalid choice: 'tetris'"),
        (["pipeline", "progress", "p", "--bootstrap-server", "x:y"], "'x:y' is not an address"),
        (["pipeline", "progress", "--bootstrap-server", "x:1"], "give either the name of the pipeline or --checkpoint"),
        (
            ["pipeline", "progress", "--bootstrap-server", "x:1", "--checkpoint", "/nowhere"],
            "/nowhere is no checkpoint of a query on this machine",
        ),
    ],
)
def test_an_invalid_option_is_refused_in_one_sentence(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(arguments)
    except SystemExit as left:
        code = int(left.code or 0)
    found = capsys.readouterr().err
    assert code == 2
    assert said in found
    assert found.startswith(f"eosin pipeline {arguments[1]}: ")
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize("when", ["available-now", "2s", "500ms", "2 seconds", "1 minute 30 seconds", "1m"])
def test_the_trigger_option_accepts_the_times_of_spark(when: str) -> None:
    assert trigger(when) == when


def test_the_commands_report_a_missing_java(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert main(["pipeline", "example", "orders"]) == 1
    assert capsys.readouterr().err.startswith("eosin pipeline example: there is no java on the PATH")


@pytest.mark.slow
def test_a_topic_that_does_not_exist_is_one_sentence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    with BrokerProcess(tmp_path / "data", durability="memory") as broker:
        where = ["--bootstrap-server", broker.address, "--checkpoint", str(tmp_path / "c")]
        assert main(["pipeline", "run", *where, "--input", "orders", "--output", "totals", "json:loads"]) == 1
    assert capfd.readouterr().err == "eosin pipeline run: topic orders does not exist\n"


@pytest.mark.slow
def test_progress_shows_the_marker_and_the_producer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def one_batch(bootstrap: str, pipeline: str) -> None:
        async with Client(bootstrap) as client:
            transactions = BatchTransactions(client, pipeline, notes=pipeline == "totals")
            await transactions.start("query-1", "run-1")

            async def nothing(_: object) -> int:
                return 7

            await transactions.run(0, "range", nothing)

    with BrokerProcess(tmp_path / "data", durability="memory") as broker:
        asked = ["pipeline", "progress", "totals", "--bootstrap-server", broker.address]
        assert main(asked) == 1
        assert capsys.readouterr().err == (
            "eosin pipeline progress: there is no pipeline 'totals': topic totals-progress has no marker of it\n"
        )
        asyncio.run(one_batch(broker.address, "totals"))
        assert main([*asked, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["query"], told["batch"], told["rows"]) == ("query-1", 0, 7)
        assert told["producer"]["state"] in ("CompleteCommit", "PrepareCommit")
        assert main(asked) == 0
        said = capsys.readouterr().out
        assert "batch     0, 7 rows, 20" in said
        assert "query     query-1\nwritten   by TxnSink, run run-1\n" in said
        # A query of the format without a name is found by its checkpoint.
        asyncio.run(one_batch(broker.address, "eosin-query-1"))
        (tmp_path / "metadata").write_text('{"id":"query-1"}')
        assert main(["pipeline", "progress", "--checkpoint", str(tmp_path), *asked[3:]]) == 0
        said = capsys.readouterr().out
        assert said.startswith("pipeline  eosin-query-1\n")
        assert 'written   by format("eosin"), run run-1\n' in said
