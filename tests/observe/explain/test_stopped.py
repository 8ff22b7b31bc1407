"""`eosin explain --data-dir`: a stopped broker's ids, partitions, topics, groups and producer ids from its files alone
(console.md 2.4 and 3)."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from wire_producer import idempotent
from wire_share_group import ShareMember, alter
from wire_streams_group import StreamsMember, counting

from eosin.cli.explain import main
from eosin.model.features import GROUP_VERSION
from eosin.observe.explain import stored_facts
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.storage.disk.system import ReadOnlyDisk

pytestmark = pytest.mark.process

Capture = pytest.CaptureFixture[str]


def stopped(path: Path, scene: Callable[[ObservedBroker], Awaitable[None]], **settings: Any) -> str:
    """The data directory of a broker that has stopped after `scene`."""

    async def run() -> None:
        async with observed_broker(log_dirs=(str(path / "data"),), eosin_durability="fsync", **settings) as broker:
            await scene(broker)

    asyncio.run(run())
    return str(path / "data")


def told(capsys: Capture, *arguments: str) -> str:
    """What the command says, without times."""
    assert main(arguments) == 0
    text = re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}", "T", capsys.readouterr().out)
    return re.sub(r"\d+(\.\d)? (ms|s)\b", "D", text)


def test_a_stopped_partition_names_the_transaction_that_is_open_in_it(tmp_path: Path, capsys: Capture) -> None:
    pairs = []

    async def scene(broker: ObservedBroker) -> None:
        other = await broker.producer("done")
        await other.append(ORDERS_0, 2)
        await other.commit()
        await other.completed()
        producer = await broker.producer("invoicing")
        await producer.append(ORDERS_0, 3)
        pairs.append(producer.producer_id)

    path = stopped(tmp_path, scene)
    assert told(capsys, "orders-0", "--data-dir", path) == (
        f"orders-0: committed readers stand at 3 since T, 3 records behind: the transaction of invoicing (producer"
        f" {pairs[0]}/0), open for D. Its coordinator aborts it once it runs, after T.\n  (from the files in {path})\n"
    )
    assert "committed readers are held back in 1 of 1 partition" in told(capsys, "orders", "--data-dir", path)
    assert told(capsys, str(pairs[0]), "--data-dir", path).startswith("invoicing has a transaction open since T")
    assert main(["orders-1", "--data-dir", path, "--as", "partition"]) == 1
    assert capsys.readouterr().out.startswith(
        "the files have nothing of partition orders-1: it is empty, on another broker, or there is none."
    )
    assert main(["nobody", "--data-dir", path, "--as", "group"]) == 1


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_a_log_is_replayed_from_its_last_snapshot_or_from_its_beginning(
    tmp_path: Path, capsys: Capture, *, has_snapshot: bool
) -> None:
    async def scene(broker: ObservedBroker) -> None:
        producer = await broker.producer("invoicing")
        await producer.append(ORDERS_0, 3)
        await (await idempotent(await broker.wire())).append(ORDERS_0, 2)

    path = stopped(tmp_path, scene)
    snapshots = list((Path(path) / "orders-0").glob("*.snapshot"))
    assert snapshots
    if not has_snapshot:
        for each in snapshots:
            each.unlink()
    assert "committed readers stand at 0 since T, 5 records behind: the transaction of invoicing" in told(
        capsys, "orders-0", "--data-dir", path
    )


def test_a_stopped_group_says_what_it_has_committed_and_what_waits(tmp_path: Path, capsys: Capture) -> None:
    async def scene(broker: ObservedBroker) -> None:
        await (await idempotent(await broker.wire())).append(ORDERS_0, 9)
        producer = await broker.producer("copier")
        await producer.commit_offsets("readers", ORDERS_0, 4)
        await producer.commit()
        await producer.completed()
        late = await broker.producer("late")
        await late.commit_offsets("readers", ORDERS_0, 7)

    path = stopped(tmp_path, scene)
    assert told(capsys, "readers", "--data-dir", path).startswith(
        "group readers: Empty, 0 members, lag 5; its offsets for orders-0 wait for an open transaction"
        " (UNSTABLE_OFFSET_COMMIT until it ends)."
    )


def test_a_stopped_consumer_group_has_its_members_and_its_epochs(tmp_path: Path, capsys: Capture) -> None:
    async def scene(broker: ObservedBroker) -> None:
        await broker.server.cluster.finalize_levels({GROUP_VERSION: 1})
        joining = ConsumerGroupHeartbeatRequest(
            group_id="readers",
            member_id="m",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        )
        assert (await (await broker.wire("reader-1")).ask(joining, 1)).error_code == ErrorCode.NONE
        await (await idempotent(await broker.wire())).append(ORDERS_0, 9)
        producer = await broker.producer("copier")
        await producer.commit_offsets("readers", ORDERS_0, 4)
        await producer.commit()
        await producer.completed()

    path = stopped(tmp_path, scene)
    assert told(capsys, "readers", "--data-dir", path).startswith("group readers: Stable, 1 member, lag 5")
    facts = asyncio.run(stored_facts.StoredFacts(ReadOnlyDisk(), path).group("readers"))
    assert (facts.epoch, facts.assignment_epoch, [each.client_id for each in facts.members]) == (2, 2, ["reader-1"])


def test_stopped_share_and_streams_groups_have_their_members_epochs_and_offsets(
    tmp_path: Path, capsys: Capture
) -> None:
    async def scene(broker: ObservedBroker) -> None:
        wire = await broker.wire("worker-1")
        await (await idempotent(await broker.wire())).append(ORDERS_0, 9)
        member = await ShareMember(wire, "workers", "w").joined("orders", partitions=2)
        await member.leave()
        assert (await alter(wire, "workers", "orders", (0, 4))).responses[0].partitions[0].error_code == 0
        await ShareMember(wire, "workers", "w").joined("orders", partitions=2)
        app = StreamsMember(await broker.wire("app-1"), "counters", "a")
        await app.join(counting("lines", "counters"))

    path = stopped(tmp_path, scene, group_share_assignment_interval_ms=0)
    share = told(capsys, "workers", "--data-dir", path)
    assert share.startswith("share group workers: Stable, 1 member, 5 records not done with in 2 partitions")
    assert "orders-0: 5 records from offset 4, read by 1 member" in share
    streams = told(capsys, "counters", "--data-dir", path)
    assert "group counters: NotReady, 1 member" in streams
    assert "no tasks are dealt out: topics of its topology were missing" in streams


def test_a_stopped_producer_id_says_which_partitions_know_it(tmp_path: Path, capsys: Capture) -> None:
    ids = []

    async def scene(broker: ObservedBroker) -> None:
        producer = await idempotent(await broker.wire())
        await producer.append(ORDERS_0, 2)
        ids.append(producer.producer_id)

    path = stopped(tmp_path, scene)
    assert told(capsys, str(ids[0]), "--data-dir", path).startswith(
        f"no coordinator has a transactional id for producer {ids[0]}: an idempotent producer, epoch 0, known in"
        " orders-0, written last at T."
    )


def test_a_torn_end_and_what_is_too_much_to_read_cost_no_answer(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(broker: ObservedBroker) -> None:
        await (await idempotent(await broker.wire())).append(ORDERS_0, 9)

    path = stopped(tmp_path, scene)
    for each in (Path(path) / "orders-0").glob("*.snapshot"):
        each.unlink()
    (log,) = (Path(path) / "orders-0").glob("*.log")
    with log.open("ab") as file:
        file.write(b"\x00" * 7 + b"\x09" + b"torn")
    assert "can read up to 9, the high watermark" in told(capsys, "orders-0", "--data-dir", path)
    monkeypatch.setattr(stored_facts, "MOST_BYTES", 8)
    assert main(["orders-0", "--data-dir", path, "--json", "--as", "partition"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["evidence"][-1] == f"from the files in {path}, 0 MiB at most of orders-0"


def test_following_files_makes_no_sense(tmp_path: Path, capsys: Capture) -> None:
    assert main(["orders-0", "--data-dir", str(tmp_path), "--follow"]) == 2
    assert capsys.readouterr().err.startswith("eosin explain: --follow asks a running cluster")
