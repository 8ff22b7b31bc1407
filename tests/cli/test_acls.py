"""`eosin acls` against a running broker (security.md 8.3)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from broker_process import BrokerProcess

from eosin.cli import acls
from eosin.settings.broker import STANDARD_AUTHORIZER

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS;User:root"}
    with BrokerProcess(tmp_path_factory.mktemp("acls"), settings=settings, durability="memory") as broker:
        yield broker.address


@pytest.fixture
def run(address: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    def ran(*arguments: str) -> tuple[int, list[str], str]:
        code = acls.main([*arguments, "--bootstrap-server", address])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    yield ran
    ran("remove", "--principal", "User:app", "--principal", "User:*")


def entries(lines: list[str]) -> set[tuple[str, ...]]:
    rows = [json.loads(line) for line in lines]
    return {(each["resource_type"], each["name"], each["permission"], each["operation"]) for each in rows}


def test_a_producer_and_a_consumer_get_what_they_need(run: Any) -> None:
    code, lines, _ = run(
        *("add", "--principal", "User:app", "--producer", "--consumer", "--topic", "orders", "--group", "g"),
        *("--transactional-id", "tx", "--json"),
    )
    assert code == 0
    expected = {
        ("TOPIC", "orders", "ALLOW", "WRITE"),
        ("TOPIC", "orders", "ALLOW", "DESCRIBE"),
        ("TOPIC", "orders", "ALLOW", "CREATE"),
        ("TOPIC", "orders", "ALLOW", "READ"),
        ("GROUP", "g", "ALLOW", "READ"),
        ("TRANSACTIONAL_ID", "tx", "ALLOW", "WRITE"),
        ("TRANSACTIONAL_ID", "tx", "ALLOW", "DESCRIBE"),
    }
    assert entries(lines) == expected
    assert entries(run("list", "--principal", "User:app", "--json")[1]) == expected
    assert entries(run("list", "--group", "g", "--json")[1]) == {("GROUP", "g", "ALLOW", "READ")}


def test_entries_go_by_what_they_say(run: Any) -> None:
    run("add", "--principal", "User:app", "--allow", "READ,WRITE", "--topic", "ord", "--prefixed")
    run("add", "--principal", "User:app", "--deny", "write", "--topic", "orders", "--host", "10.0.0.1")
    code, lines, _ = run("remove", "--principal", "User:app", "--allow", "WRITE", "--topic", "ord", "--json")
    assert (code, entries(lines)) == (0, {("TOPIC", "ord", "ALLOW", "WRITE")})
    left = run("list", "--principal", "User:app", "--json")[1]
    assert entries(left) == {("TOPIC", "ord", "ALLOW", "READ"), ("TOPIC", "orders", "DENY", "WRITE")}
    code, _, error = run("remove", "--principal", "User:app", "--topic", "elsewhere")
    assert (code, error) == (1, "eosin acls remove: no entry matches\n")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("WRITE", "orders", "10.0.0.1"), ("denied", "DENY User:app WRITE on LITERAL TOPIC orders from 10.0.0.1")),
        (("WRITE", "orders", "10.0.0.2"), ("allowed", "ALLOW User:app WRITE on PREFIXED TOPIC ord from *")),
        (("DESCRIBE", "orders", "10.0.0.1"), ("allowed", "ALLOW User:app WRITE on PREFIXED TOPIC ord from *")),
        (("ALTER", "orders", "10.0.0.1"), ("denied", "DefaultDeny")),
    ],
)
def test_a_decision_is_explained(run: Any, question: tuple[str, ...], answer: tuple[str, str]) -> None:
    run("add", "--principal", "User:app", "--allow", "WRITE", "--topic", "ord", "--prefixed")
    run("add", "--principal", "User:app", "--deny", "WRITE", "--topic", "orders", "--host", "10.0.0.1")
    operation, topic, host = question
    asked = ("--principal", "User:app", "--operation", operation, "--topic", topic, "--host", host, "--json")
    code, (line,), _ = run("explain", *asked)
    assert code == 0
    assert json.loads(line) == dict(zip(("decision", "rule"), answer, strict=True))


def test_a_super_user_is_known_by_the_settings(run: Any) -> None:
    asked = ("--principal", "User:root", "--operation", "READ", "--topic", "orders", "--json")
    assert json.loads(run("explain", *asked)[1][0]) == {"decision": "allowed", "rule": "SuperUser"}


def test_a_grant_to_everybody_is_remarked_upon(run: Any) -> None:
    code, lines, error = run("add", "--principal", "User:*", "--allow", "READ", "--topic", "news")
    assert code == 0
    assert len(lines) == 2
    assert "User:* is everybody" in error


@pytest.mark.parametrize(
    ("entry", "note"),
    [
        (
            ("--allow", "READ", "--topic", "*"),
            "__consumer_offsets, __share_group_state and __transaction_state,",
        ),
        (("--allow", "ALL", "--topic", "__t", "--prefixed"), "to read __transaction_state,"),
        (("--allow", "READ", "--topic", "t", "--host", "broker-1"), "host broker-1 is no address and no network,"),
        (("--allow", "READ", "--topic", "t", "--host", "10.0.0.0/8"), ""),
        (("--allow", "WRITE", "--topic", "*"), ""),
        (("--deny", "READ", "--topic", "*", "--host", "::1"), ""),
        (("--allow", "READ", "--group", "*"), ""),
    ],
)
def test_a_grant_that_reaches_farther_or_less_far_than_it_looks_is_remarked_upon(
    run: Any, entry: tuple[str, ...], note: str
) -> None:
    code, _, error = run("add", "--principal", "User:app", *entry)
    assert code == 0
    assert note in error
    assert bool(note) is bool(error)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "--allow", "READ", "--topic", "t"), "say who: --principal TYPE:NAME"),
        (("add", "--principal", "app", "--allow", "READ", "--topic", "t"), "--principal must be TYPE:NAME"),
        (("add", "--principal", "User:app", "--topic", "t"), "say what and on what"),
        (("add", "--principal", "User:app", "--allow", "READ"), "say what and on what"),
        (("add", "--principal", "User:app", "--allow", "WRITE", "--cluster"), "WRITE makes no sense on a CLUSTER"),
        (("add", "--principal", "User:app", "--consumer", "--topic", "t"), "--consumer needs --group"),
        (("add", "--principal", "User:app", "--producer"), "--producer and --consumer need --topic"),
        (("remove",), "say which entries"),
        (("explain", "--operation", "READ", "--topic", "t"), "ask about one --principal"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert acls.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"eosin acls {arguments[0]}: {sentence}")
    assert error.count("\n") == 1


def test_an_operation_that_is_none_is_told_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        acls.main(("add", "--principal", "User:app", "--allow", "REED", "--topic", "t"))
    assert ended.value.code == 2
    assert "READ" in capsys.readouterr().err


def test_without_an_authorizer_a_broker_says_so(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerProcess(tmp_path / "data", durability="memory") as broker:
        assert acls.main(("list", "--bootstrap-server", broker.address)) == 1
    assert "No authorizer is configured on this broker" in capsys.readouterr().err
