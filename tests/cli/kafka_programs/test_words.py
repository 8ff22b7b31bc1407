"""Words of Kafka's programs, and what becomes of them."""

from pathlib import Path

import pytest

from eosin.cli.image.state import VARIABLE, OpenListener, State
from eosin.cli.kafka_programs.__main__ import NAMES, main
from eosin.cli.kafka_programs.configs import entries
from eosin.cli.kafka_programs.console import consume_words, produce_words
from eosin.cli.kafka_programs.queries import Unanswerable, server
from eosin.cli.kafka_programs.words import parse_words

SERVER = ("--bootstrap-server", "kafka:9092")


def test_options_have_one_dash_or_two_and_an_equals_sign_or_none() -> None:
    words = parse_words(["-topic", "t", "--partitions=3", "--list", "--config", "a=1", "--config", "b=2", "rest"])
    assert words.one("topic") == "t"
    assert words.one("partitions") == "3"
    assert words.has("list")
    assert words.all("config") == ["a=1", "b=2"]
    assert words.rest == ["rest"]


def test_zookeeper_means_the_broker_of_this_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    with pytest.raises(Unanswerable, match="there is no ZooKeeper"):
        server(parse_words(["--zookeeper", "zk:2181"]))
    State({VARIABLE: str(tmp_path / "state")}).keep_listeners([OpenListener("PLAINTEXT", "127.0.0.1:1")])
    assert server(parse_words(["--zookeeper", "zk:2181"])) == "127.0.0.1:1"
    with pytest.raises(Unanswerable, match="--bootstrap-server"):
        server(parse_words([]))


def test_records_are_written_in_the_words_of_eosin() -> None:
    assert produce_words(parse_words([*SERVER, "-topic", "t"])) == [
        *("t", "--create", "--bootstrap-server", "kafka:9092"),
    ]
    with pytest.raises(Unanswerable, match="--topic NAME"):
        produce_words(parse_words(SERVER))


def test_records_are_read_in_the_words_of_eosin() -> None:
    read = consume_words(parse_words([*SERVER, "--topic", "t", "--from-beginning", "--timeout-ms", "100"]))
    assert read == [
        *("t", "--bootstrap-server", "kafka:9092", "--from", "earliest", "--isolation", "read_uncommitted"),
    ]
    followed = consume_words(parse_words([*SERVER, "--topic", "t", "--property", "print.offset=true"]))
    assert followed[3:6] == ["--from", "latest", "--follow"]
    assert followed[-4:] == ["--show", "offset", "--separator", "\\t"]


def test_brackets_hold_settings_of_kafka_configs_together() -> None:
    text = "advertised.listeners=[A://a:1,B://b:2], SCRAM-SHA-512=[iterations=4096,password=x],b=1"
    assert entries(text) == [
        ("advertised.listeners", "[A://a:1,B://b:2]"),
        ("SCRAM-SHA-512", "[iterations=4096,password=x]"),
        ("b", "1"),
    ]


def test_a_format_keeps_the_users_for_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    user = "SCRAM-SHA-512=[name=app,password=secret]"
    assert main(["kafka-storage.sh", "format", "-t=x", "-c", "/f", "--ignore-formatted", "--add-scram", user]) == 0
    assert State({VARIABLE: str(tmp_path / "state")}).users == [user]
    assert main(["kafka-storage", "format", "--add-scram", "nonsense"]) == 1
    assert main(["kafka-storage", "random-uuid"]) == 0
    assert len(capsys.readouterr().out.splitlines()[-1]) == 22


def test_a_version_asks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka-broker-api-versions.sh", "--bootstrap-server", "kafka:9092", "--version"]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "name", [*(each for each in NAMES if each in ("kafka-acls", "rpk", "zookeeper-shell")), "x.sh"]
)
def test_a_program_that_is_not_there_says_so(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_what_is_about_zookeeper_is_ready_at_once() -> None:
    assert main(["cub", "zk-ready", "zk:2181", "40"]) == 0
    assert main(["dub", "ensure", "X"]) == 0


def test_no_broker_of_this_container_can_be_stopped_where_none_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert main(["kafka-server-stop.sh"]) == 1
    assert capsys.readouterr().err == "No kafka server to stop\n"
