"""What the programs of an image leave to each other."""

from pathlib import Path

from eosin.cli.image.readiness import open_listeners, ready_lines
from eosin.cli.image.state import CERTIFIED, VARIABLE, OpenListener, State
from eosin.node.configuration import load_config


def test_listeners_and_users_are_found_again(tmp_path: Path) -> None:
    state = State({VARIABLE: str(tmp_path / "state")})
    assert (state.listeners, state.users, state.pid) == ([], [], None)
    state.keep_listeners([OpenListener("PLAINTEXT", "127.0.0.1:9092")])
    state.add_users(["SCRAM-SHA-512=[name=a,password=b]"])
    state.add_users(["SCRAM-SHA-512=[name=c,password=d]"])
    again = State({VARIABLE: str(tmp_path / "state")})
    assert again.listeners == [("PLAINTEXT", "127.0.0.1:9092")]
    assert again.pid is not None
    assert len(again.users) == 2
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert (tmp_path / "state" / "users").stat().st_mode & 0o077 == 0
    again.keep_listeners([])
    assert (again.listeners, again.pid) == ([], None)


def test_without_the_variable_nothing_is_kept() -> None:
    state = State({})
    state.keep_listeners([OpenListener("PLAINTEXT", "127.0.0.1:9092")])
    assert (state.listeners, state.users) == ([], [])


def test_a_place_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state = State({VARIABLE: str(tmp_path / "file")})
    state.keep_listeners([OpenListener("PLAINTEXT", "127.0.0.1:9092")])
    assert state.listeners == []


def test_a_listener_of_all_addresses_is_reached_on_this_machine() -> None:
    config = load_config(
        properties="listeners=A://:1,B://[::1]:2,C://localhost:3\nadvertised.listeners=A://a:1",
    ).config
    found = open_listeners(config, [":1", "[::1]:2", "localhost:3"])
    assert [each.address for each in found] == ["127.0.0.1:1", "[::1]:2", "localhost:3"]


def test_each_line_that_is_waited_for_stands_in_one_line_only() -> None:
    lines = ready_lines(7)
    for pattern in ("[KafkaServer id=7] started", "Transitioning from RECOVERY to RUNNING", "Kafka Server started"):
        assert sum(pattern in line for line in lines) == 1
    assert CERTIFIED.startswith("SSL")
