"""`eosin lab`: a process with a control API, from its ready line to its stop."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from waiting import HANG_S

from eosin.lab.command import options_in
from eosin.lab.serve import command

COMMAND = [sys.executable, "-m", "eosin.lab.serve.command"]


def request(url: str, method: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, given, method=method), timeout=HANG_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def test_a_lab_at_every_address_starts_without_one_that_clients_are_told_later() -> None:
    chosen = command.parser().parse_args(["--listen", "0.0.0.0:9092", "--advertise-later"])
    given = command.lab_options(chosen).settings
    assert given == {"advertised.listeners": "PLAINTEXT://localhost:9092", "eosin.allow.open.listeners": "true"}
    told = ["--set", "advertised.listeners=PLAINTEXT://broker:9092"]
    chosen = command.parser().parse_args(["--listen", "0.0.0.0:9092", "--advertise-later", *told])
    assert command.lab_options(chosen).settings["advertised.listeners"] == "PLAINTEXT://broker:9092"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--control", "x"], "--control is [HOST:]PORT, not 'x'"),
        (["--control", "0", "--topics", "a:b"], "--topics is NAME[:PARTITIONS],..., not 'a:b'"),
        (["--control", "0", "--set", "a"], "--set is NAME=VALUE, not 'a'"),
    ],
)
def test_a_wrong_option_is_refused_in_a_sentence(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(options) == 2
    assert capsys.readouterr().err.strip() == f"eosin lab: {said}"


@pytest.mark.parametrize(
    ("word", "hint"),
    [("certfy", "did you mean eosin lab certify?"), ("serve", "there are run, certify, scenarios, replay")],
)
def test_a_first_word_that_is_no_command_is_refused_with_those_that_there_are(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([word, "--", "true"]) == 2
    assert capsys.readouterr().err.strip() == f"eosin lab: no command {word!r}; {hint} (eosin lab --help)"


def test_a_first_word_leads_to_another_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["scenarios", "lost-commit-answer"]) == 0
    assert "A transaction is committed, and the application is not told." in capsys.readouterr().out


def test_the_command_of_the_compose_file_is_understood() -> None:
    text = (Path(__file__).parents[3] / "docker/compose.lab.yaml").read_text()
    chosen = command.parser().parse_args(re.findall(r"^ +- (--\S+)$", text, re.MULTILINE))
    config = options_in(chosen).config()
    assert [str(each) for each in config.advertised_listeners] == ["PLAINTEXT://broker:9092"]
    assert chosen.control == "0.0.0.0:9644"


@pytest.mark.process
def test_a_client_of_another_language_breaks_and_judges_a_broker_by_http(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [*COMMAND, "--control", "0", "--topics", "orders", "--token", "secret", "--ready-file", str(ready)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "LAB ready on 127.0.0.1:" in line
        bootstrap, url = ready.read_text().split()
        assert bootstrap in line
        assert url in line
        key = {"Authorization": "Bearer secret"}
        assert request(url, "GET", Host="evil.example", **key)[0] == 421
        assert request(f"{url}/faults", "POST", {}, Origin="http://evil.example", **key)[0] == 403
        assert request(f"{url}/faults", "POST", {}, Content_Type="text/plain", **key)[0] == 415

        rule = {"match": {"api": "EndTxn"}, "do": {"action": "lose", "what": "answer"}}
        assert request(f"{url}/faults", "POST", rule, **key)[0] == 201
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "log_level": 0})
        producer.init_transactions(HANG_S)
        producer.begin_transaction()
        producer.produce("orders", b"a")
        producer.commit_transaction(HANG_S)
        assert request(f"{url}/faults/f1?wait_fired=1", "GET", **key)[1]["fired"] == 1
        judged = {"outcomes": {"transactional_id": "t", "outcomes": ["commit"]}, "no_open_transactions": True}
        assert request(f"{url}/assert", "POST", judged, **key) == (200, {"done": True})

        assert request(url, "GET")[0] == 401
        beside = url.removesuffix("/lab/v1")
        assert request(f"{beside}/metrics", "GET")[0] == 401
        metrics = urllib.request.Request(f"{beside}/metrics", headers=key)
        with urllib.request.urlopen(metrics, timeout=HANG_S) as answer:
            assert b"eosin_flush_backlog_bytes" in answer.read()
        with urllib.request.urlopen(beside, timeout=HANG_S) as page:
            assert page.read().startswith(b"<!doctype html>")
        streamed = urllib.request.Request(f"{url}/history?api=EndTxn", headers={"Accept": "text/event-stream", **key})
        with urllib.request.urlopen(streamed, timeout=HANG_S) as events:
            assert events.readline().startswith(b"id: ")
            assert json.loads(events.readline().removeprefix(b"data: "))["api"] == "EndTxn"
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0
    assert [line for line in errors.splitlines() if "had no valid token" not in line] == []
