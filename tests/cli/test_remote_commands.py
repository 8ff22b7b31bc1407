"""How commands show what a cluster answers."""

from eosin.cli.common.remote_commands import WIDEST_COLUMN, moment, table

COLUMNS = {"name": "NAME", "count": "COUNT", "start_ms": "STARTED"}


def test_texts_stand_left_and_numbers_right() -> None:
    rows = [{"name": "a", "count": 7, "start_ms": 0}, {"name": "longer", "count": 100_000, "start_ms": -1}]
    assert table(rows, COLUMNS) == [
        "NAME     COUNT  STARTED",
        "a            7  1970-01-01 00:00:00.000Z",
        "longer  100000  -",
    ]


def test_one_long_name_does_not_push_the_others_away() -> None:
    _, long, short = table([{"name": "x" * 500}, {"name": "y", "count": 1}], {"name": "NAME"})
    assert (len(long), short) == (500, "y")
    first, _ = table([{"name": "x" * 500, "count": 1}], {"name": "NAME", "count": "COUNT"})
    assert first.index("COUNT") == WIDEST_COLUMN + 2


def test_a_name_cannot_control_the_terminal() -> None:
    assert table([{"name": "\x1b[31mred\nline"}], {"name": "NAME"})[1] == "'\\x1b[31mred\\nline'"


def test_nothing_is_a_title_alone() -> None:
    assert table([], COLUMNS) == ["NAME  COUNT  STARTED"]


def test_a_time_outside_of_every_calendar_stays_a_number() -> None:
    assert moment(2**63 - 1) == str(2**63 - 1)
