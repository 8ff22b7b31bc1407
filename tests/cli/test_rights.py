"""What commands say to a user who may see a part of a cluster only."""

from collections.abc import Iterator

import pytest
from broker_process import BrokerProcess
from shell import Shell
from waiting import HANG_S, wait_until
from wire import unique

from eosin.settings.broker import STANDARD_AUTHORIZER

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Who asks may do everything until an entry names a resource: then only those whom it names."""
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    data_dir = tmp_path_factory.mktemp("guarded") / "data"
    with BrokerProcess(data_dir, settings=settings) as broker, Shell(broker.address) as shell:
        yield shell


def test_a_transaction_that_may_not_be_described_is_not_said_to_hang(guarded: Shell) -> None:
    topic = guarded.topic()
    entry = ("--principal", "User:owner", "--transactional-id", "*", "--allow", "DESCRIBE", "--json")
    with guarded.start("produce", topic, "--json", "--transactional-id", unique("tx")) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b'{"value":"1","timestamp":1700000000000}\n')  # long ago, as one that hangs
        writer.stdin.flush()
        wait_until(lambda: guarded.ok("consume", topic, "--isolation", "read_uncommitted").lines == ["1"])
        guarded.ok("acls", "add", *entry)
        try:
            explained = guarded.ok("explain", f"{topic}-0", "--json")
            code, said = guarded.refused("transactions", "find-hanging", "--topic", topic)
        finally:
            guarded.ok("acls", "remove", *entry)
        writer.communicate(timeout=HANG_S)
    (partition,) = explained.rows
    assert "is not told without DESCRIBE on every TransactionalId" in partition["sentence"]
    assert (code, said) == (
        1,
        "eosin transactions find-hanging: asking whose the open transactions are: TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        " (it needs DESCRIBE on every TransactionalId)",
    )


def test_a_reader_is_shown_the_partitions_of_a_topic_without_its_settings(guarded: Shell) -> None:
    topic = guarded.topic(2)
    guarded.ok("acls", "add", "--principal", "User:ANONYMOUS", "--topic", topic, "--allow", "READ")
    heading, *table = guarded.ok("topics", "describe", topic).lines
    assert heading.endswith(", settings are not told without DESCRIBE_CONFIGS")
    assert len(table) == 3
    (row,) = guarded.ok("topics", "describe", topic, "--json").rows
    assert (row["configs"], len(row["partitions"])) == (None, 2)


def test_who_may_only_make_topics_makes_one_and_is_told_of_one_that_is_there(guarded: Shell) -> None:
    prefix = unique("made")
    guarded.ok("acls", "add", "--principal", "User:ANONYMOUS", "--topic", prefix, "--prefixed", "--allow", "CREATE")
    (row,) = guarded.ok("topics", "create", f"{prefix}-1", "--partitions", "2", "--json").rows
    assert (row["topic"], row["partitions"]) == (f"{prefix}-1", -1), "how many is among what may not be described"
    code, said = guarded.refused("topics", "create", f"{prefix}-1")
    assert (code, "TOPIC_ALREADY_EXISTS" in said) == (1, True), said
    assert guarded.refused("topics", "describe", f"{prefix}-1")[0] == 1
