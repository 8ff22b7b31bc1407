"""`eosin groups` against Eosin and Apache Kafka, with groups of an unmodified client."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from broker_process import BrokerProcess
from confluent_kafka import Consumer
from shell import Shell
from waiting import HANG_S
from wire import Wire, unique
from wire_streams_group import StreamsMember

from eosin.cli.groups import _member
from eosin.client.groups import GroupMember
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_heartbeat import Subtopology, Topology

pytestmark = pytest.mark.process


@contextmanager
def member(shell: Shell, group: str, topic: str, count: int, **settings: Any) -> Iterator[None]:
    """A consumer that has read and committed so many records, and stays."""
    consumer = Consumer(
        {
            **shell.librdkafka,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "client.id": "reader",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([topic])
    try:
        for _ in range(count):
            message = consumer.poll(HANG_S)
            assert message is not None
            assert message.error() is None
        if count:
            consumer.commit(asynchronous=False)
        else:
            consumer.poll(5)
        yield
    finally:
        consumer.close()


def filled(shell: Shell) -> str:
    """A topic with four records in two transactions, and their two markers."""
    topic = shell.topic()
    shell.ok("produce", topic, "--transactional-id", unique("tx"), "--batch", "2", given=b"1\n2\n3\n4\n")
    return topic


@pytest.mark.smoke
def test_lag_is_told_with_and_without_control_records(shell: Shell) -> None:
    topic, group = filled(shell), unique("group")
    with member(shell, group, topic, 1):
        (found,) = shell.ok("groups", "describe", group, "--json").rows
        (position,) = found["partitions"]
        (one,) = found["members"]
    assert found["state"] == "Stable"
    assert (position["committed"], position["high_watermark"]) == (1, 6)
    assert (position["lag"], position["record_lag"]) == (5, 3)
    assert (one["client_id"], one["partitions"], one["member_id"]) == ("reader", [f"{topic}-0"], position["member"])
    with member(shell, group, topic, 3):
        pass
    heading, title, line = shell.ok("groups", "describe", group).lines
    assert heading == f"{group}: Empty, 0 members, 1 offsets behind, 0 of them records"
    assert title.split("  ")[0] == "TOPIC"
    assert line.split()[:7] == [topic, "0", "5", "6", "6", "1", "0"]


def test_the_record_lag_leaves_out_records_of_open_and_aborted_transactions(shell: Shell) -> None:
    topic, group = shell.topic(), unique("group")
    shell.ok("produce", topic, given=b"1\n")
    shell.run("produce", topic, "--json", "--transactional-id", unique("tx"), given=b'{"value":"aborted"}\nbad\n')
    shell.ok("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    (found,) = shell.ok("groups", "describe", group, "--json").rows
    assert found["partitions"][0]["record_lag"] == 1


def test_members_are_shown(shell: Shell) -> None:
    topic, group = shell.topic(2), unique("group")
    with member(shell, group, topic, 0):
        heading, title, line = shell.ok("groups", "describe", group, "--members").lines
    assert heading.startswith(f"{group}: Stable, 1 member, ")
    assert heading.endswith("; nothing committed for 2 of 2 partitions")
    assert title.split("  ")[0] == "MEMBER ID"
    assert line.endswith(f"{topic}-0, {topic}-1")


def test_groups_are_listed_by_state(shell: Shell) -> None:
    topic, group = filled(shell), unique("group")
    with member(shell, group, topic, 1):
        rows = shell.ok("groups", "list", "--json").rows
        assert {"group": group, "state": "Stable", "type": "classic"}.items() <= next(
            row for row in rows if row["group"] == group
        ).items()
        assert group not in [row["group"] for row in shell.ok("groups", "list", "--state", "Empty", "--json").rows]
    assert group in [row["group"] for row in shell.ok("groups", "list", "--state", "Empty", "--json").rows]


def test_a_group_is_put_elsewhere_only_when_it_is_meant(shell: Shell) -> None:
    topic, group = filled(shell), unique("group")

    def reset(*how: str) -> list[tuple[int, int]]:
        rows = shell.ok("groups", "reset-offsets", group, "--topic", topic, *how, "--json").rows
        return [(row["before"], row["after"]) for row in rows]

    assert reset("--to-latest") == [(-1, 6)]
    assert shell.refused("groups", "describe", group)[0] == 1, "a dry run"
    assert reset("--to-latest", "--execute") == [(-1, 6)]
    assert reset("--shift-by", "-2", "--execute") == [(6, 4)]
    assert reset("--shift-by", "-20", "--dry-run") == [(4, 0)]
    assert reset("--to-offset", "3", "--execute") == [(4, 3)]
    assert reset("--to-current") == [(3, 3)]
    assert reset("--to-datetime", "2020-01-31T08:00") == [(3, 0)]
    assert reset("--by-duration", "1ms") == [(3, 6)]
    assert shell.ok("groups", "reset-offsets", group, "--all-topics", "--to-earliest").lines[-1] == (
        "Nothing was changed: --execute does it."
    )
    assert shell.ok("groups", "describe", group, "--json").rows[0]["partitions"][0]["committed"] == 3


def test_a_file_says_where_a_group_is_put(shell: Shell, tmp_path: Path) -> None:
    topic, group, file = filled(shell), unique("group"), tmp_path / "positions.csv"
    file.write_text(f"{topic},0,4\n\n")
    rows = shell.ok("groups", "reset-offsets", group, "--from-file", str(file), "--execute", "--json").rows
    assert [(row["before"], row["after"]) for row in rows] == [(-1, 4)]
    file.write_text(f'"{topic}", 0, 400\n')
    rows = shell.ok("groups", "reset-offsets", group, "--from-file", str(file), "--json").rows
    assert [(row["before"], row["after"]) for row in rows] == [(4, 6)], "the end of the log"
    for text, code, sentence in (
        (f"{topic},0\n", 2, "positions.csv:1: must be TOPIC,PARTITION,OFFSET, not"),
        (f"{topic},0,1\n{topic},0,2\n", 2, f"positions.csv:2: {topic}-0 is there twice"),
        ("absent,0,1\n", 1, "there is no topic 'absent'"),
        (f"{topic},77,1\n", 1, f"topic '{topic}' has no partition 77"),
        ("", 2, "has no line"),
    ):
        file.write_text(text)
        given, said = shell.refused("groups", "reset-offsets", group, "--from-file", str(file), "--execute")
        assert (given, sentence in said) == (code, True), said
    assert shell.ok("groups", "describe", group, "--json").rows[0]["partitions"][0]["committed"] == 4


def test_a_position_is_forgotten_unless_a_member_reads_the_topic(shell: Shell) -> None:
    topic, other, group = filled(shell), filled(shell), unique("group")
    shell.ok("groups", "reset-offsets", group, "--topic", topic, "--to-latest", "--execute")
    shell.ok("groups", "reset-offsets", group, "--topic", other, "--to-earliest", "--execute")
    assert shell.ok("groups", "delete-offsets", group, "--topic", topic, "--json").rows == [
        {"group": group, "topic": topic, "partition": 0, "before": 6}
    ]
    left = shell.ok("groups", "describe", group, "--json").rows[0]["partitions"]
    assert [each["topic"] for each in left] == [other]
    code, said = shell.refused("groups", "delete-offsets", group, "--topic", topic)
    assert (code, f"group {group!r} has no position in {topic}" in said) == (1, True), said
    with member(shell, group, other, 1):
        code, said = shell.refused("groups", "delete-offsets", group, "--topic", f"{other}:0")
        assert (code, "GROUP_SUBSCRIBED_TO_TOPIC" in said) == (1, True), said


def test_a_group_with_members_is_neither_moved_nor_deleted(shell: Shell) -> None:
    topic, group = filled(shell), unique("group")
    with member(shell, group, topic, 1):
        for arguments in (["reset-offsets", group, "--topic", topic, "--to-earliest", "--execute"], ["delete", group]):
            code, said = shell.refused("groups", *arguments)
            assert (code, said.split(": ", 1)[1]) == (1, f"group {group!r} is Stable with 1 member: stop them first")
    shell.ok("groups", "delete", group)
    assert shell.refused("groups", "describe", group) == (1, f"eosin groups describe: there is no group {group!r}")


def test_a_position_in_a_topic_that_is_gone_is_still_shown(shell: Shell) -> None:
    topic, other, group = filled(shell), shell.topic(), unique("group")
    shell.ok("groups", "reset-offsets", group, "--topic", topic, "--topic", other, "--to-latest", "--execute")
    shell.ok("topics", "delete", topic)
    rows = shell.ok("groups", "describe", group, "--json").rows[0]["partitions"]
    assert other in [row["topic"] for row in rows]
    assert all(row["lag"] is None for row in rows if row["topic"] == topic)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["describe", "nobody"], 1, "there is no group 'nobody'"),
        (["delete", "nobody"], 1, "there is no group 'nobody'"),
        (["reset-offsets", "g", "--to-earliest"], 2, "give --topic or --all-topics"),
        (["reset-offsets", "g", "--from-file", "/no/such/file"], 2, "cannot read /no/such/file: No such file"),
        (["delete-offsets", "g"], 2, "--topic"),
        (["delete-offsets", "nobody", "--topic", "t"], 1, "group 'nobody' has no position in t"),
        (["reset-offsets", "g", "--topic", "t"], 2, "one of the arguments --to-earliest"),
        (["reset-offsets", "g", "--topic", "absent", "--to-earliest"], 1, "there is no topic 'absent'"),
        (["reset-offsets", "g", "--topic", "t:", "--to-earliest"], 2, "must be TOPIC or TOPIC:N,N, not 't:'"),
        (["reset-offsets", "g", "--topic", "t", "--by-duration", "soon"], 2, "must be earliest, latest"),
        (["reset-offsets", "g", "--topic", "t", "--by-duration", "5"], 2, "must be a duration such as 15m"),
        (["reset-offsets", "g", "--topic", "t", "--to-datetime", "noon"], 2, "must be a time such as"),
        (["reset-offsets", "nobody", "--all-topics", "--to-latest"], 1, "group 'nobody' has no position"),
    ],
)
def test_a_command_for_groups_that_cannot_be_done_is_one_sentence(
    shell: Shell, arguments: list[str], code: int, sentence: str
) -> None:
    given, said = shell.refused("groups", *arguments)
    assert (given, sentence in said) == (code, True), said


# Consumer groups of KIP-848


async def heartbeats(address: str, *members: dict[str, Any]) -> None:
    """Heartbeats of a group `readers`, one after the other; the first of a member joins."""
    wire = await Wire.open(address)
    for fields in members:
        joins = {"member_epoch": 0, "rebalance_timeout_ms": 60_000, "topic_partitions": ()}
        request = {"group_id": "readers", **({} if fields.get("member_epoch") else joins), **fields}
        answer = await wire.ask(ConsumerGroupHeartbeatRequest(**request), 1)
        assert answer.error_code == 0, answer
    await wire.close()


def test_a_regular_expression_is_shown_beside_the_names_of_a_subscription() -> None:
    row = _member(GroupMember("m", None, "c", "/h", (), topics=("orders",), regex="bills.*", target=(), epoch=3))
    assert (row["subscription"], row["regex"], row["moves"]) == (["orders", "/bills.*/"], "bills.*", [])
    assert _member(GroupMember("m", None, "c", "/h", ()))["moves"] is None


def test_members_of_a_consumer_group_show_their_epochs_subscriptions_and_moves(tmp_path: Path) -> None:
    settings = {"group.consumer.assignment.interval.ms": "0"}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker, Shell(broker.address) as shell:
        shell.ok("topics", "create", "orders", "--partitions", "2")
        a = {"member_id": "a", "instance_id": "i", "rack_id": "r", "subscribed_topic_names": ("orders",)}
        b = {"member_id": "b", "subscribed_topic_names": ("orders",)}
        asyncio.run(heartbeats(broker.address, a, b, {"member_id": "a", "instance_id": "i", "member_epoch": 2}))
        (found,) = shell.ok("groups", "describe", "readers", "--json").rows
        assert (found["state"], found["type"], found["epoch"], found["assignment_epoch"]) == (
            "Reconciling",
            "consumer",
            3,
            3,
        )
        first, second = sorted(found["members"], key=lambda each: each["member_id"])
        assert (first["epoch"], first["instance_id"], first["rack"], first["topics"]) == (2, "i", "r", ["orders"])
        assert (first["partitions"], len(first["target"])) == (["orders-0", "orders-1"], 1)
        (moved,) = {*first["partitions"]} - {*first["target"]}
        assert (first["moves"], second["moves"]) == ([f"-{moved}"], [f"+{moved}"])
        assert (second["epoch"], second["regex"], second["protocol"]) == (3, None, "consumer")
        heading, titles, *lines = shell.ok("groups", "describe", "readers", "--members").lines
        assert heading.endswith("; epoch 3, assigned by uniform")
        assert titles.split("  ")[-1] == "MOVES"
        assert any(line.endswith(f"+{moved}") for line in lines)
        listed = shell.ok("groups", "list", "--type", "consumer", "--json").rows
        assert [(each["group"], each["type"], each["protocol"]) for each in listed] == [
            ("readers", "consumer", "consumer")
        ]
        assert shell.ok("groups", "list", "--type", "classic", "--json").rows == []
        code, said = shell.refused("groups", "delete", "readers")
        assert (code, "is Reconciling with 2 members: stop them first" in said) == (1, True), said
        gone = [{"member_id": each, "member_epoch": -1} for each in ("a", "b")]
        asyncio.run(heartbeats(broker.address, *gone))
        shell.ok("groups", "reset-offsets", "readers", "--topic", "orders", "--to-latest", "--execute")
        (found,) = shell.ok("groups", "describe", "readers", "--json").rows
        assert (found["state"], [each["committed"] for each in found["partitions"]]) == ("Empty", [0, 0])
        shell.ok("groups", "delete-offsets", "readers", "--topic", "orders:0")
        shell.ok("groups", "delete", "readers")
        assert shell.ok("groups", "list", "--json").rows == []


def test_a_group_that_the_settings_leave_out_is_listed_and_told_why_it_is_not_described(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        asyncio.run(heartbeats(broker.address, {"member_id": "a", "subscribed_topic_names": ("orders",)}))
    settings = {"group.coordinator.rebalance.protocols": "classic,streams"}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker, Shell(broker.address) as shell:
        (listed,) = shell.ok("groups", "list", "--json").rows
        assert (listed["group"], listed["type"]) == ("readers", "consumer")
        code, said = shell.refused("groups", "describe", "readers")
        assert (code, "rebalance.protocols of broker 1 may leave consumer out" in said) == (1, True), said


# Share groups of KIP-932


async def share_heartbeat(address: str, epoch: int) -> int:
    """A heartbeat of the member `a` of the share group `workers`; returns its epoch."""
    wire = await Wire.open(address)
    topics = ("orders",) if epoch == 0 else None
    answer = await wire.ask(ShareGroupHeartbeatRequest("workers", "a", epoch, "r", topics), 1)
    await wire.close()
    assert answer.error_code == 0, answer
    return int(answer.member_epoch)


def test_a_share_group_is_shown_with_its_members_and_deleted_when_it_has_none(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker, Shell(broker.address) as shell:
        shell.ok("topics", "create", "orders", "--partitions", "2")
        epoch = asyncio.run(share_heartbeat(broker.address, 0))
        listed = shell.ok("groups", "list", "--type", "share", "--json").rows
        assert [(each["group"], each["state"], each["protocol"]) for each in listed] == [("workers", "Stable", "share")]
        (found,) = shell.ok("groups", "describe", "workers", "--json").rows
        assert (found["type"], found["state"], found["epoch"], found["assignor"]) == (
            "share",
            "Stable",
            epoch,
            "simple",
        )
        (member,) = found["members"]
        assert (member["member_id"], member["rack"], member["epoch"], member["topics"]) == ("a", "r", epoch, ["orders"])
        heading, titles, *lines = shell.ok("groups", "describe", "workers", "--members").lines
        assert heading.startswith("workers: share group, Stable, 1 member; 0 records not done with; epoch")
        assert ("INSTANCE ID" in titles, lines[0].startswith("a ")) == (False, True)
        assert shell.ok("explain", "workers").lines[0].startswith("share group workers: Stable, 1 member, ")
        code, said = shell.refused("groups", "delete", "workers")
        assert (code, "is Stable with 1 member: stop them first" in said) == (1, True), said
        code, said = shell.refused("features", "downgrade", "share.version=0")
        assert (code, "share groups have members, as workers" in said) == (1, True), said
        asyncio.run(share_heartbeat(broker.address, -1))
        code, said = shell.refused("groups", "reset-offsets", "workers", "--topic", "orders", "--to-latest")
        assert (code, "is a share group: kafka-share-groups.sh puts it elsewhere" in said) == (1, True), said
        assert "no members: it stays until it is deleted" in shell.ok("groups", "describe", "workers").lines[0]
        shell.ok("features", "downgrade", "share.version=0")
        code, said = shell.refused("groups", "describe", "workers")
        assert (code, "share.version is 0: eosin features upgrade share.version serves it" in said) == (1, True), said
        told = shell.run("explain", "workers")
        assert "`eosin features upgrade share.version` lets it be served" in "\n".join(told.lines), told


async def streams_heartbeat(address: str, epoch: int) -> int:
    """A heartbeat of the member `a` of the streams group `counters`; returns its epoch."""
    wire = await Wire.open(address)
    member = StreamsMember(wire, "counters", "a", epoch)
    if epoch:
        answer = await member.heartbeat()
    else:
        answer = await member.join(Topology(0, (Subtopology("0", source_topics=("orders",)),)))
    await wire.close()
    assert answer.error_code == 0, answer
    return member.epoch


def test_a_streams_group_is_shown_with_its_members_and_deleted_when_it_has_none(tmp_path: Path) -> None:
    settings = {"group.streams.initial.rebalance.delay.ms": "0"}
    with BrokerProcess(tmp_path / "data", settings=settings) as broker, Shell(broker.address) as shell:
        shell.ok("topics", "create", "orders", "--partitions", "2")
        epoch = asyncio.run(streams_heartbeat(broker.address, 0))
        (listed,) = shell.ok("groups", "list", "--type", "streams", "--json").rows
        assert (listed["group"], listed["state"], listed["protocol"]) == ("counters", "Stable", "streams")
        (found,) = shell.ok("groups", "describe", "counters", "--json").rows
        assert (found["type"], found["state"], found["epoch"], found["assignor"]) == (
            "streams",
            "Stable",
            epoch,
            "sticky",
        )
        (member,) = found["members"]
        assert (member["member_id"], member["epoch"]) == ("a", epoch)
        assert member["partitions"] == ["orders-0", "orders-1"]
        assert (member["active"], member["standby"], member["topology_epoch"]) == (["0_0", "0_1"], [], 0)
        assert found["topology_epoch"] == 0
        heading, titles, line = shell.ok("groups", "describe", "counters", "--members").lines
        assert heading.endswith("assigned by sticky; topology 0")
        assert ("ACTIVE" in titles, "0_0" in line) == (True, True)
        assert "group counters: Stable, 1 member" in shell.ok("explain", "counters").lines[0]
        code, said = shell.refused("groups", "delete", "counters")
        assert (code, "is Stable with 1 member: stop them first" in said) == (1, True), said
        code, said = shell.refused("features", "downgrade", "streams.version=0")
        assert (code, "streams groups have members, as counters" in said) == (1, True), said
        asyncio.run(streams_heartbeat(broker.address, -1))
        assert "counters" in shell.ok("groups", "describe", "counters").lines[0]
        shell.ok("groups", "delete", "counters")
        shell.ok("features", "downgrade", "streams.version=0")
