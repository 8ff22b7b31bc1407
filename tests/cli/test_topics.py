"""`eosin topics` against Eosin and Apache Kafka."""

import pytest
from shell import Shell
from waiting import HANG_S, wait_until
from wire import unique

pytestmark = pytest.mark.process


@pytest.mark.smoke
def test_a_topic_is_made_listed_described_altered_and_deleted(shell: Shell) -> None:
    name = unique("topic")
    (made,) = shell.ok(
        "topics", "create", name, "--partitions", "3", "--config", "retention.ms=86400000", "--json"
    ).rows
    assert (made["topic"], made["partitions"], made["configs"]) == (name, 3, {"retention.ms": "86400000"})
    assert name in [row["topic"] for row in shell.ok("topics", "list", "--json").rows]
    (found,) = shell.ok("topics", "describe", name, "--json").rows
    assert (found["topic_id"], found["replication_factor"]) == (made["topic_id"], made["replication_factor"])
    assert found["configs"] == {"retention.ms": "86400000"}
    assert [(each["partition"], each["log_start_offset"], each["high_watermark"]) for each in found["partitions"]] == [
        (index, 0, 0) for index in range(3)
    ]
    title, head, *lines = shell.ok("topics", "describe", name).lines
    assert title == f"{name}: topic id {made['topic_id']}, retention.ms=86400000"
    assert head.split("  ")[0] == "PARTITION"
    assert len(lines) == 3

    (altered,) = shell.ok(
        *("topics", "alter", name, "--partitions", "4", "--config", "segment.ms=60000"),
        *("--delete-config", "retention.ms", "--json"),
    ).rows
    assert (altered["partitions"], altered["configs"]) == (4, {"segment.ms": "60000"})
    (deleted,) = shell.ok("topics", "delete", name, "--json").rows
    assert deleted["topic"] == name
    assert name not in [row["topic"] for row in shell.ok("topics", "list", "--json").rows]
    code, said = shell.refused("topics", "describe", name)
    assert (code, said.partition(";")[0]) == (1, f"eosin topics describe: there is no topic {name!r}")


def test_a_dry_run_changes_nothing(shell: Shell) -> None:
    name = unique("topic")
    shell.ok("topics", "create", name, "--dry-run")
    assert shell.refused("topics", "describe", name)[0] == 1
    shell.topic()
    other = shell.topic(2)
    shell.ok("topics", "alter", other, "--partitions", "3", "--config", "segment.ms=60000", "--dry-run")
    (found,) = shell.ok("topics", "describe", other, "--json").rows
    assert (len(found["partitions"]), found["configs"]) == (2, {})


def test_a_change_that_is_refused_changes_nothing(shell: Shell) -> None:
    name = shell.topic(2)
    code, said = shell.refused("topics", "alter", name, "--partitions", "3", "--config", "retention.ms=soon")
    assert (code, "INVALID_CONFIG" in said) == (1, True)
    (found,) = shell.ok("topics", "describe", name, "--json").rows
    assert len(found["partitions"]) == 2


def test_several_topics_are_looked_at_before_one_is_changed(shell: Shell) -> None:
    there, absent = shell.topic(), unique("absent")
    assert shell.refused("topics", "delete", there, absent)[0] == 1
    assert shell.refused("topics", "create", absent, there) == (
        1,
        f"eosin topics create: there is a topic {there!r} already",
    )
    assert [row["topic"] for row in shell.ok("topics", "describe", there, "--json").rows] == [there]
    assert shell.refused("topics", "describe", absent)[0] == 1
    shell.ok("topics", "create", absent, there, "--if-not-exists")
    assert len(shell.ok("topics", "delete", there, absent, unique("more"), "--if-exists", "--json").rows) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["alter", "orders"], 2, "give --partitions, --config or --delete-config"),
        (["alter", "absent", "--partitions", "2"], 1, "there is no topic 'absent'"),
        (["create", "a b"], 2, "'a b' can be no topic: names have up to 249 letters, digits"),
        (["create", "many", "--partitions", "0"], 2, "must be an integer above 0, not '0'"),
        (["create", "many", "--config", "retention"], 2, "must be NAME=VALUE, not 'retention'"),
        (["create", "wide", "--replication-factor", "7"], 1, "INVALID_REPLICATION_FACTOR"),
        (["fly"], 2, "no action 'fly'; there are list, create, describe, alter, delete, delete-records"),
    ],
)
def test_a_command_for_topics_that_cannot_be_done_is_one_sentence(
    shell: Shell, arguments: list[str], code: int, sentence: str
) -> None:
    given, said = shell.refused("topics", *arguments)
    assert given == code
    assert said.startswith("eosin topics")
    assert sentence in said


def test_without_a_broker_the_exit_code_is_2(shell: Shell) -> None:
    for arguments in (["topics", "list"], ["produce", "orders"], ["consume", "orders"]):
        code, said = shell.refused(*arguments, "--bootstrap-server", "127.0.0.1:1")
        assert (code, "Connection refused" in said) == (2, True)


def test_the_oldest_records_are_deleted_once_they_were_shown(shell: Shell) -> None:
    topic = shell.topic(2)
    shell.ok("produce", topic, "--partition", "0", given=b"1\n2\n3\n")
    shell.ok("produce", topic, "--partition", "1", given=b"4\n")
    looked = shell.ok("topics", "delete-records", topic, "--before", "-1")
    assert looked.lines[-1] == "Nothing was deleted: --execute does it."
    assert sorted(shell.ok("consume", topic).lines) == ["1", "2", "3", "4"]
    rows = shell.ok("topics", "delete-records", topic, "--before", "-1", "--execute", "--json").rows
    assert [(row["partition"], row["before"], row["after"]) for row in rows] == [(0, 0, 2), (1, 0, 0)]
    assert sorted(shell.ok("consume", topic).lines) == ["3", "4"]
    (row,) = shell.ok("topics", "delete-records", f"{topic}:0", "--before", "1", "--execute", "--json").rows
    assert (row["before"], row["after"]) == (2, 2)
    shell.ok("topics", "delete-records", f"{topic}:1", "--before", "2000-01-01", "--execute")
    assert sorted(shell.ok("consume", topic).lines) == ["3", "4"]
    shell.ok("topics", "delete-records", topic, "--before", "latest", "--execute")
    assert shell.ok("consume", topic).lines == []
    for arguments, code, sentence in (
        ([f"{topic}:2", "--before", "1"], 1, f"topic {topic!r} has no partition 2"),
        ([unique("absent"), "--before", "1"], 1, "there is no topic"),
        ([topic], 2, "--before"),
        ([topic, "--before", "soon"], 2, "must be earliest, latest"),
    ):
        given, said = shell.refused("topics", "delete-records", *arguments)
        assert (given, sentence in said) == (code, True), said


def test_records_of_an_open_transaction_are_not_deleted(shell: Shell) -> None:
    topic = shell.topic()
    shell.ok("produce", topic, given=b"1\n")
    with shell.start("produce", topic, "--transactional-id", unique("tx")) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"2\n")
        writer.stdin.flush()
        wait_until(lambda: shell.ok("consume", topic, "--isolation", "read_uncommitted").lines == ["1", "2"])
        shell.ok("topics", "delete-records", topic, "--before", "latest", "--execute")
        writer.communicate(timeout=HANG_S)
    assert shell.ok("consume", topic).lines == ["2"]
