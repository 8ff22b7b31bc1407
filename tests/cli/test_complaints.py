"""Complaints about a command line: what was meant, and where the help is."""

import socket
import threading

import pytest

from eosin.cli.__main__ import COMMANDS, main
from eosin.cli.common.suggestions import nearest


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a line that is wrong is answered with."""
    try:
        ended: object = main(arguments)
    except SystemExit as left:
        ended = left.code
    assert ended == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    return err.strip()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["consum", "orders"], "no command 'consum'; did you mean eosin consume orders? (eosin --help lists all)"),
        (["topic", "list"], "no command 'topic'; did you mean eosin topics list?"),
        (["kafka-console-consumer.sh", "--topic", "o p"], "did you mean eosin consume --topic 'o p'?"),
        (["-L", "-b", "b:1"], "did you mean eosin cluster describe -b b:1?"),
        (["fly"], "no command 'fly' (eosin --help lists all)"),
        (["topics", "ls"], "eosin topics: no action 'ls'; did you mean eosin topics list? (eosin topics --help)"),
        (["topics", "descirbe"], "did you mean eosin topics describe?"),
        (["topics", "consume", "orders"], "did you mean eosin consume?"),
        (["groups", "fly"], "no action 'fly'; there are list, describe, reset-offsets, delete-offsets, delete"),
        (["topics", "create", "x", "--bogus"], "eosin topics create: unrecognized arguments: --bogus"),
        (["topics", "create"], "required: TOPIC (eosin topics create --help)"),
        (
            ["consume", "o", "--partiton", "0"],
            "arguments: --partiton 0; did you mean --partition? (eosin consume --help",
        ),
        (["consume", "orders:0,2"], "can be no topic: partitions have an option, orders --partition 0 --partition 2"),
        (["consume", r"%k %v\n"], "can be no topic: a format stands behind --format"),
        (["produce", "or ders"], "'or ders' can be no topic: names have up to 249 letters, digits, dots,"),
        (["topics", "create", "x" * 250], "can be no topic"),
        (["topics", "create", ".."], "'..' can be no topic"),
        (["topics", "delete-records", "a b:0", "--before", "1"], "'a b' can be no topic"),
        (["topics", "list", "--bootstrap-server", "http://b:9100"], "'http://b:9100' is an address of HTTP"),
        (["topics", "list", "-b", "PLAINTEXT://b:9092"], "leave out PLAINTEXT://, as in b:9092"),
    ],
)
def test_a_wrong_line_is_answered_with_the_right_one(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in complaint(capsys, *arguments)


@pytest.mark.process
def test_an_http_listener_is_told_from_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        said = complaint(capsys, "topics", "list", "--bootstrap-server", address)
        answering.join()
    assert f"{address} speaks HTTP, not Kafka's protocol: a broker's own listener is another port" in said


@pytest.mark.process
def test_a_port_where_nobody_listens_is_told_as_that(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        said = complaint(capsys, "topics", "list", "--bootstrap-server", address)
    assert said.endswith(f"cannot connect to {address}: Connection refused (nothing listens there)")


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    overview = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == overview
    for asked in (["help", "topics"], ["topics", "help"], ["--help", "topics"]):
        with pytest.raises(SystemExit) as ended:
            main(asked)
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith("usage: eosin topics ")
    for asked in (["help", "topics", "create"], ["topics", "help", "create"]):
        with pytest.raises(SystemExit):
            main(asked)
        assert capsys.readouterr().out.startswith("usage: eosin topics create ")


def test_a_topic_may_be_called_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "help", "--bootstrap-server", "b:no"]) == 2
    assert "is no port" in capsys.readouterr().err


def test_the_overview_is_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings[:5] == ["run:", "data:", "look into it:", "rights:", "files of a stopped broker:"]
    under = lines.index("data:")
    assert [line.split()[0] for line in lines[under + 1 : under + 5]] == ["topics", "produce", "consume", "groups"]
    assert len(COMMANDS) == len([line for line in lines if line.startswith("  ") and line[2] != " "])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ordres", "orders"),
        ("Orders", "orders"),
        ("ord", "orders"),
        ("o", None),
        ("shipments", None),
        ("", None),
        ("invoice", "invoices"),
    ],
)
def test_the_nearest_name_is_offered_and_none_that_is_far(typed: str, meant: str | None) -> None:
    assert nearest(typed, ["orders", "invoices", "payments-eu"]) == meant


def test_synonyms_come_first() -> None:
    assert nearest("LS", ["lists"], synonyms={"ls": "list"}) == "list"
