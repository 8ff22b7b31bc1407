"""`eosin console --demo`: traffic within seconds, and nothing left behind (console.md 7)."""

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from demo_process import DemoProcess, demo
from waiting import HANG_S, wait_until

from eosin.cli.__main__ import main

Tables = dict[str, dict[Any, dict[str, Any]]]


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[DemoProcess]:
    with demo(tmp_path) as process:
        yield process


def tables_of(process: DemoProcess) -> Tables:
    """What a page of the console has now."""
    text = httpx.get(f"http://{process.http_address}/api/v1/stream?once", timeout=HANG_S).text
    found: Tables = {}
    for line in text.splitlines():
        if line.startswith("data: "):
            for name, changes in msgspec.json.decode(line.removeprefix("data: "))["tables"].items():
                found.setdefault(name, {}).update({row["key"]: row for row in changes.get("rows", ())})
    return found


def seen(process: DemoProcess, is_there: Callable[[Tables], Any]) -> None:
    """Wait until a page shows it."""

    def first_rows() -> object:
        return {name: list(rows.values())[:9] for name, rows in tables_of(process).items()}

    wait_until(lambda: is_there(tables_of(process)), first_rows, every_s=0.2)


def has_event(tables: Tables, kind: str, transactional_id: str) -> bool:
    events = tables.get("events", {}).values()
    return any((each["kind"], each["id"]) == (kind, transactional_id) for each in events)


@pytest.mark.process
@pytest.mark.slow
def test_the_demo_shows_everything_that_the_console_is_for_and_leaves_nothing(
    shown: DemoProcess, tmp_path: Path
) -> None:
    seen(shown, lambda tables: tables.get("transactions", {}).get("invoicing-1", {}).get("state") == "Ongoing")
    seen(shown, lambda tables: tables["partitions"].get("invoices-0", {}).get("held_by") == "invoicing-1")
    seen(shown, lambda tables: any(each["outcome"] == "commit" for each in tables.get("ends", {}).values()))
    seen(shown, lambda tables: has_event(tables, "fenced", "import-1"))
    seen(shown, lambda tables: tables.get("groups", {}).get("reports", {}).get("lag", 0) > 3)
    seen(shown, lambda tables: "billing" in tables["groups"])
    seen(shown, lambda tables: tables["broker"]["broker"]["flushes"] > 0)
    assert [each.name.startswith("eosin-demo-") for each in tmp_path.iterdir()] == [True]
    assert shown.end(signal.SIGINT) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
@pytest.mark.long
def test_a_transaction_of_the_demo_runs_out_of_time_and_another_one_begins(shown: DemoProcess) -> None:
    seen(shown, lambda tables: has_event(tables, "timeout", "invoicing-1"))
    seen(shown, lambda tables: has_event(tables, "fenced", "invoicing-1"))
    seen(shown, lambda tables: tables["transactions"]["invoicing-1"]["state"] == "Ongoing")


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_demos_directory_goes_with_it_however_it_ends(
    number: signal.Signals, shown: DemoProcess, tmp_path: Path
) -> None:
    assert list(tmp_path.iterdir()) != []
    assert shown.end(number) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("option", ["--http", "--listen"])
def test_a_port_in_use_is_told_in_a_sentence(option: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        options = {"--http": "0", option: address}
        process = DemoProcess(tmp_path, *(word for each in options.items() for word in each))
        code, said = process.end(None)
    assert (code, process.first_line) == (2, "")
    assert said == f"eosin console: cannot listen on {address}: the address is in use, choose another with {option}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_machine_without_room_for_a_directory_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: str) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", refused)
    assert main(["console", "--demo", "--http", "0"]) == 2
    assert capsys.readouterr().err == "eosin console: cannot make a temporary directory: No space left on device\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ["--bootstrap-server", "127.0.0.1:1", "--timeout", "0.5"],
            "cannot connect to 127.0.0.1:1",
            marks=pytest.mark.process,
        ),
        (["--demo", "--bootstrap-server", "kafka:9092"], "--demo has a broker of its own: --bootstrap-server is for"),
        (["--listen", "127.0.0.1:9092"], "--listen is for the broker of --demo"),
        (["--http", "0.0.0.0:0"], "--http must be an address of this machine alone, not '0.0.0.0:0'"),
        (["--demo", "--http", "0.0.0.0:0"], "--http must be an address of this machine alone, not '0.0.0.0:0'"),
        (["--demo", "--http", ""], "--http must be an address of this machine alone, not ''"),
        (["--demo", "--listen", "0.0.0.0:0"], "--listen must be an address of this machine alone, not '0.0.0.0:0'"),
        (["--demo", "--listen", "SSL=127.0.0.1:0"], "--listen must be an address of this machine alone, not 'SSL="),
        (["--demo", "--http", "x"], "eosin.http.listener must be [HOST:]PORT with a port up to 65535, not 'x'"),
    ],
)
def test_options_that_make_no_console_on_this_machine_are_refused_in_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["console", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"eosin console: {sentence}")
    assert err.count("\n") == 1
