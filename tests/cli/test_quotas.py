"""`eosin quotas` against Eosin and Apache Kafka."""

import pytest
from shell import Shell
from waiting import wait_until
from wire import unique

pytestmark = pytest.mark.process


def test_quotas_are_set_listed_and_removed(shell: Shell) -> None:
    user = unique("user")
    (made,) = shell.ok(
        "quotas", "set", "--user", user, "producer_byte_rate=1024", "request_percentage=12.5", "--json"
    ).rows
    assert made["quotas"] == {"producer_byte_rate": 1024, "request_percentage": 12.5}
    shell.ok("quotas", "set", "--user", user, "--client-id-default", "consumer_byte_rate=2048")
    assert listed(shell, user, 2) == [
        {
            "user": user,
            "client_id": None,
            "ip": None,
            "quotas": {"producer_byte_rate": 1024, "request_percentage": 12.5},
        },
        {"user": user, "client_id": "<default>", "ip": None, "quotas": {"consumer_byte_rate": 2048}},
    ]
    (title, line) = shell.ok("quotas", "list", "--user", user, "--client-id-default").lines
    assert title.split() == ["USER", "CLIENT", "ID", "IP", "QUOTAS"]
    assert line.split() == [user, "<default>", "-", "consumer_byte_rate=2048"]
    shell.ok("quotas", "remove", "--user", user, "producer_byte_rate", "request_percentage")
    shell.ok("quotas", "remove", "--user", user, "--client-id-default", "consumer_byte_rate")
    assert listed(shell, user, 0) == []


def listed(shell: Shell, user: str, count: int) -> list[dict[str, object]]:
    """The quotas of a user, once there are so many: Apache Kafka's broker follows its controller."""
    rows: list[dict[str, object]] = []

    def are_there() -> bool:
        rows[:] = [row for row in shell.ok("quotas", "list", "--json").rows if row["user"] == user]
        return len(rows) == count

    wait_until(are_there, lambda: rows)
    return sorted(rows, key=lambda row: str(row["client_id"] or ""))


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["set", "producer_byte_rate=1"], 2, "give --user, --client-id or --ip"),
        (["set", "--user", "a", "producer_byte_rate"], 2, "must be NAME=VALUE"),
        (["set", "--user", "a", "producer_byte_rate=0"], 2, "producer_byte_rate must be a number above 0, not '0'"),
        (["set", "--user", "a", "speed=1"], 2, "Invalid configuration key speed"),
        (["set", "--user", "a", "--ip", "1.2.3.4", "speed=1"], 2, "--ip goes with neither"),
        (["set", "--user", "a", "--user-default", "speed=1"], 2, "not allowed with argument"),
        (["list", "--user", "absent"], 1, "there is no such quota"),
    ],
)
def test_a_command_for_quotas_that_cannot_be_done_is_one_sentence(
    shell: Shell, arguments: list[str], code: int, sentence: str
) -> None:
    given, said = shell.refused("quotas", *arguments)
    assert (given, sentence in said) == (code, True), said
