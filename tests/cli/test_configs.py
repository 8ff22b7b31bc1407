"""`eosin configs` against Eosin and Apache Kafka."""

import pytest
from shell import Shell

pytestmark = pytest.mark.process


def test_a_setting_of_a_topic_is_changed_and_put_back(shell: Shell) -> None:
    topic = shell.topic(1, "--config", "retention.ms=5000")

    def own() -> dict[str, str]:
        rows = shell.ok("configs", "describe", "--topic", topic, "--json").rows
        return {row["name"]: row["value"] for row in rows if row["source"] == "topic"}

    assert own() == {"retention.ms": "5000"}
    (title, line) = shell.ok("configs", "alter", "--topic", topic, "--set", "segment.ms=60000", "--dry-run").lines
    assert title.split() == ["NAME", "BEFORE", "AFTER"]
    assert line.split()[::2] == ["segment.ms", "60000"]
    assert own() == {"retention.ms": "5000"}
    (changed,) = shell.ok("configs", "alter", "--topic", topic, "--set", "retention.ms=7000", "--json").rows
    assert changed == {"name": "retention.ms", "before": "5000", "after": "7000"}
    assert own() == {"retention.ms": "7000"}
    shell.ok("configs", "alter", "--topic", topic, "--delete", "retention.ms", "--set", "segment.ms=60000")
    assert own() == {"segment.ms": "60000"}
    (named,) = shell.ok("configs", "describe", "--topic", topic, "--name", "retention.ms", "--json").rows
    assert (named["value"], named["source"]) == ("604800000", "default")
    assert len(shell.ok("configs", "describe", "--topic", topic, "--all").lines) > 20


def test_settings_of_a_broker_and_its_loggers_are_shown(shell: Shell) -> None:
    rows = shell.ok("configs", "describe", "--broker", "1", "--all", "--json").rows
    assert "log.retention.ms" in {row["name"] for row in rows}
    rows = shell.ok("configs", "describe", "--broker-logger", "1", "--json").rows
    assert {row["source"] for row in rows} == {"broker"}
    shell.ok("configs", "describe", "--broker-defaults")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["describe"], 2, "one of the arguments --topic --broker"),
        (["describe", "--topic", "absent"], 1, "there is no topic 'absent'"),
        (["describe", "--broker", "4711"], 1, "there is no broker 4711"),
        (["describe", "--broker", "first"], 2, "must be a node id, not 'first'"),
        (["describe", "--broker", "1", "--name", "colour"], 1, "there is no setting 'colour'"),
        (["alter", "--topic", "absent", "--set", "a=b"], 1, "there is no topic 'absent'"),
        (["alter", "--topic", "absent"], 2, "give --set or --delete"),
        (["alter", "--topic", "absent", "--set", "a"], 2, "must be NAME=VALUE, not 'a'"),
    ],
)
def test_a_command_for_settings_that_cannot_be_done_is_one_sentence(
    shell: Shell, arguments: list[str], code: int, sentence: str
) -> None:
    given, said = shell.refused("configs", *arguments)
    assert (given, sentence in said) == (code, True), said


def test_a_value_that_is_refused_changes_nothing(shell: Shell) -> None:
    topic = shell.topic()
    code, said = shell.refused(
        "configs", "alter", "--topic", topic, "--set", "segment.ms=60000", "--set", "retention.ms=soon"
    )
    assert (code, "INVALID_CONFIG" in said) == (1, True)
    assert [
        row for row in shell.ok("configs", "describe", "--topic", topic, "--json").rows if row["source"] == "topic"
    ] == []


@pytest.mark.parametrize(
    ("whose", "named"),
    [
        (("--broker-defaults",), "all brokers"),
        (("--broker", "1"), "broker 1"),
        (("--broker-logger", "1"), "the loggers of broker 1"),
    ],
)
def test_a_refusal_names_what_the_settings_are_of(shell: Shell, whose: tuple[str, ...], named: str) -> None:
    _, said = shell.refused("configs", "alter", *whose, "--set", "log.retention.ms=soon")
    assert f"changing the settings of {named}: INVALID_" in said
