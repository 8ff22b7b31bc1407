"""`eosin explain` of partitions, topics, groups and producer ids (console.md 3)."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as replaced
from observed_broker import ORDERS_0, ObservedBroker, observed_broker
from wire_producer import idempotent

from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.groups import GroupAdmin
from eosin.client.metadata import ClusterMetadata
from eosin.client.transactions import TransactionAdmin
from eosin.model.acls import Acl, PatternType, Permission
from eosin.model.resources import Operation, ResourceType
from eosin.observe.explain.facts import (
    GroupFacts,
    GroupPartition,
    OldestRecords,
    OpenProducer,
    PartitionFacts,
    Replicas,
    TransactionFacts,
)
from eosin.observe.explain.group_sentences import explain_group
from eosin.observe.explain.partition_sentences import explain_partition, explain_topic
from eosin.observe.explain.subjects import NotTold
from eosin.observe.recorder.events import ClientIdentity
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.settings.broker import STANDARD_AUTHORIZER

pytestmark = pytest.mark.process

TERMINATE = "`eosin transactions force-terminate invoicing` aborts it now, what it has written is lost."
ORDERS_1 = TopicPartition("orders", 1)


@pytest.fixture
async def broker() -> AsyncIterator[ObservedBroker]:
    async with observed_broker() as broker:
        yield broker


def without_times(text: str) -> str:
    """Times as T, durations as D, ports as P: what differs from run to run."""
    text = re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}", "T", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "P", text)
    return re.sub(r"\d+(\.\d)? (ms|s)\b", "D", text)


async def text(broker: ObservedBroker, subject: str, kind: str | None = None) -> str:
    return without_times((await broker.explain(subject, kind)).text)


async def test_a_partition_names_the_transaction_that_holds_its_readers(broker: ObservedBroker) -> None:
    await (await idempotent(await broker.wire())).append(ORDERS_0, 5)
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 3)
    assert await text(broker, "orders-0") == (
        f"orders-0: committed readers stand at 5 since T, 3 records behind: the transaction of invoicing"
        f" (producer {producer.producer_id}/0, orders-1 at P), open for D. It will be aborted at T (in D); {TERMINATE}"
    )
    assert (await broker.explain("orders-0")).cause == "open_transaction"


async def test_any_broker_tells_whose_transaction_it_is_though_not_which_client(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 3)
    found = await broker.explain("orders-0", over_http=False)
    assert without_times(found.sentence) == (
        "orders-0: committed readers stand at 0 since T, 3 records behind: the transaction of invoicing"
        f" (producer {producer.producer_id}/0), open for D."
    )


async def test_a_partition_without_open_transactions_says_how_far_its_readers_come_and_what_retention_keeps(
    broker: ObservedBroker,
) -> None:
    await (await idempotent(await broker.wire())).append(ORDERS_0, 5)
    assert await text(broker, "orders-0") == (
        "orders-0: no transaction is open, and committed readers can read up to 5, the high watermark. Retention keeps"
        " offsets 0 to 4 until T (for 7 days; retention.ms)."
    )


async def test_a_transaction_that_no_coordinator_knows_hangs_and_heals() -> None:
    async with observed_broker(transaction_partition_verification_enable=False) as broker:
        producer = await broker.producer("invoicing", level=1)
        await producer.append(ORDERS_0, 2)  # without AddPartitionsToTxn
        found = await broker.explain("orders-0")
        assert found.cause == "hanging"
        assert without_times(found.text) == (
            "orders-0: committed readers stand at 0, 2 records behind: a transaction of producer"
            f" {producer.producer_id}/0, last written at T, of which no coordinator knows: it hangs. It is aborted by"
            " itself within a minute of T, or at once by `eosin transactions abort orders 0 --start-offset 0`."
        )
        bare = await broker.explain("orders-0", over_http=False)
        assert bare.text.endswith("End it with `eosin transactions abort orders 0 --start-offset 0`.")


async def test_a_partition_that_is_not_there_is_said_so(broker: ObservedBroker) -> None:
    found = await broker.explain("orders-7", "partition")
    assert (found.sentence, found.is_known) == ("there is no partition orders-7.", False)


async def test_an_offline_log_says_why(broker: ObservedBroker) -> None:
    await (await idempotent(await broker.wire())).append(ORDERS_0)
    log = broker.server.services.partitions.get(ORDERS_0)
    log.failure = OSError(5, "Input/output error")  # type: ignore[union-attr]
    found = await broker.explain("orders-0")
    log.failure = None  # type: ignore[union-attr]
    assert found.cause == "offline"
    assert found.sentence == "orders-0 cannot be read on broker 1, which leads it: [Errno 5] Input/output error."


async def test_a_topic_is_explained_by_the_partition_that_is_worst_off(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 1)
    await producer.append(ORDERS_1, 9)
    found = await text(broker, "orders")
    assert found.startswith(
        "orders: committed readers are held back in 2 of 2 partitions, most in orders-1."
        " orders-1: committed readers stand at 0 since T, 9 records behind:"
    )
    await producer.commit()
    await producer.completed()
    assert await text(broker, "orders") == "orders: no transaction holds readers back in any of its 2 partitions."


async def test_a_producer_id_leads_to_its_transactional_id(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0)
    assert (await broker.explain(str(producer.producer_id))).subject == "invoicing"
    assert not (await broker.explain("99999", "producer")).is_known


async def test_a_name_that_several_have_is_the_first_and_names_the_others(broker: ObservedBroker) -> None:
    producer = await broker.producer("orders")
    await producer.append(ORDERS_0)
    await producer.commit_offsets("orders", ORDERS_0, 0)
    found = await broker.explain("orders")
    assert found.sentence.startswith("orders has a transaction open")
    assert "there is also a group of that name: --as group" in found.evidence
    assert (await broker.explain("orders", "group")).sentence.startswith("group orders:")


async def test_a_group_at_the_end_says_what_the_last_offsets_are(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    for _ in range(3):
        await producer.append(ORDERS_0, 2)
        await producer.commit()
        await producer.completed()
    await producer.append(ORDERS_0, 4)
    await producer.abort()
    await producer.completed()
    await producer.commit_offsets("readers", ORDERS_0, 5)
    await producer.commit()
    await producer.completed()
    # 5 is a marker; 6 and 7 are records, 8 a marker, 9 to 12 aborted, 13 their marker.
    found = await broker.explain("readers", "group")
    assert found.sentence == (
        "group readers: Empty, 0 members, lag 2 (log ends are 9 offsets further: 2 records, 3 control records,"
        " 4 aborted or compacted)."
    )
    assert found.cause == "lag"


async def test_a_groups_lag_of_zero_is_zero_though_markers_follow(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 2)
    await producer.commit_offsets("readers", ORDERS_0, 2)
    await producer.commit()
    await producer.completed()
    assert await text(broker, "readers", "group") == (
        "group readers: Empty, 0 members, lag 0 (log ends are 1 offset further: 1 control record)."
    )


async def test_records_behind_an_open_transaction_are_undecided_and_no_lag(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 2)
    await producer.commit_offsets("readers", ORDERS_0, 2)
    await producer.commit()
    await producer.completed()
    await producer.append(ORDERS_0, 7)
    found = await broker.explain("readers", "group")
    assert "and 7 undecided behind the open transaction of invoicing" in found.sentence
    assert found.cause == "open_transaction"


async def test_pending_offsets_name_the_transaction_that_they_wait_for(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 1)
    await producer.commit_offsets("readers", ORDERS_0, 1)
    found = await broker.explain("readers", "group")
    assert found.cause == "pending_offsets"
    assert without_times(found.text).endswith(
        "its offsets for orders-0 wait for the open transaction of invoicing (UNSTABLE_OFFSET_COMMIT until it ends)."
        f" It will be aborted at T (in D); {TERMINATE}"
    )


async def test_a_group_that_is_not_there_is_said_so(broker: ObservedBroker) -> None:
    found = await broker.explain("nobody", "group")
    assert (found.sentence, found.is_known) == (
        "there is no group nobody: it was never used, or its offsets have expired.",
        False,
    )


RIGHTS = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}


async def deny(broker: ObservedBroker, operation: Operation, *kinds: ResourceType) -> None:
    """Nobody may do that with any such resource, from now on."""
    entries = [Acl(kind, "*", PatternType.LITERAL, "User:ANONYMOUS", "*", operation, Permission.DENY) for kind in kinds]
    assert broker.server.services.acls is not None
    assert {each.error for each in await broker.server.services.acls.create(entries)} == {ErrorCode.NONE}


async def test_a_user_who_may_not_see_transactional_ids_is_still_told_of_a_partition() -> None:
    async with observed_broker(**RIGHTS) as broker:
        await broker.producer("invoicing")
        await deny(broker, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP)
        found = await broker.explain("orders-0")
        assert found.sentence.startswith("orders-0: no transaction is open")
        assert found.evidence == (
            "whether there is a transactional id or a group of that name, too, is not told: User:ANONYMOUS lacks"
            " DESCRIBE on TransactionalId or Group orders-0",
        )
        hidden = (
            "whether there is a transactional id or a group {} is not told to User:ANONYMOUS, who lacks DESCRIBE on"
            " TransactionalId or Group {} (`eosin acls add` gives it)"
        )
        for name in ("invoicing", "nobody"):  # the same whether there is one or not
            with pytest.raises(NotTold) as refused:
                await broker.explain(name)
            assert str(refused.value) == hidden.format(name, name)


async def test_a_transaction_of_an_id_that_must_not_be_seen_is_not_called_hanging() -> None:
    async with observed_broker(**RIGHTS) as broker:
        producer = await broker.producer("invoicing")
        await producer.append(ORDERS_0, 2)
        await deny(broker, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID)
        found = await broker.explain("orders-0")
        assert (found.cause, found.text) == (
            "not_authorized",
            "orders-0: committed readers stand at 0, 2 records behind: a transaction of producer"
            f" {producer.producer_id}/0; of whom is not told without DESCRIBE on every TransactionalId.",
        )


async def test_without_read_on_a_topic_the_offsets_are_told_and_the_missing_right() -> None:
    async with observed_broker(**RIGHTS) as broker:
        producer = await broker.producer("invoicing")
        await producer.append(ORDERS_0, 2)
        acls = broker.server.services.acls
        assert acls is not None
        allowed = ("User:ANONYMOUS", "*", Operation.DESCRIBE, Permission.ALLOW)
        await acls.create([Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, *allowed)])
        found = await broker.explain("orders-0")
        assert (found.cause, found.text) == (
            "not_authorized",
            "orders-0: committed readers stand at 0, 2 records behind: by whom is not told without READ on Topic"
            " orders.",
        )


async def test_a_topic_that_must_not_be_seen_is_denied_in_the_same_words_as_one_that_is_not_there() -> None:
    async with observed_broker(**RIGHTS) as broker:
        await deny(broker, Operation.DESCRIBE, ResourceType.TOPIC)
        for topic in ("orders", "nothing"):
            with pytest.raises(NotTold) as refused:
                await broker.explain(f"{topic}-0", "partition")
            assert str(refused.value) == (
                f"whether there is a partition {topic}-0 is not told to User:ANONYMOUS, who lacks DESCRIBE on Topic"
                f" {topic} (`eosin acls add` gives it)"
            )


async def test_an_idempotent_producer_id_says_where_it_wrote_and_when_it_is_forgotten() -> None:
    async with observed_broker(producer_id_expiration_ms=3_600_000) as broker:
        producer = await idempotent(await broker.wire())
        await producer.append(ORDERS_0, 3)
        found = await broker.explain(str(producer.producer_id))
        assert without_times(found.text) == (
            f"no coordinator has a transactional id for producer {producer.producer_id}: an idempotent producer, epoch"
            " 0, known in orders-0, written last at T. Its partition forgets it at T (in 60 min;"
            " producer.id.expiration.ms) unless it writes again."
        )
        assert without_times(found.evidence[0]) == "orders-0: epoch 0, last sequence 2, forgotten at T"
        assert found.next is not None
        log = broker.server.services.partitions.get(ORDERS_0)
        assert found.next.at_ms == log.producer_state.get(producer.producer_id).last_append_ms + 3_600_000  # type: ignore[union-attr]


async def test_records_that_retention_would_drop_wait_for_an_undecided_transaction(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 2)
    async with Client(broker.address) as client:
        await Admin(client).alter_configs("orders", {"retention.bytes": "0"})
    found = await broker.explain("orders-0")
    assert found.evidence == (
        "offsets 0 to 1 are beyond retention.bytes, and stay until every transaction in them is decided",
    )
    await producer.commit()
    await producer.completed()
    assert (await text(broker, "orders-0")).endswith(
        "Offsets 0 to 2 are beyond retention.bytes: the next round of retention removes them."
    )


def test_records_past_their_time_that_replicas_lack_stay() -> None:
    late = OldestRecords(0, 9, due_ms=NOW_MS - 60_000, is_replicated=False, is_decided=True)
    facts = PartitionFacts("orders-0", NOW_MS, leader=1, last_stable=9, high_watermark=9, oldest=late)
    assert explain_partition(facts).text.endswith(
        " Offsets 0 to 8 are past retention.ms since 22:12:20.000, and stay until all replicas in sync have them."
    )


def test_a_full_disk_is_told_with_the_partitions_of_its_broker() -> None:
    facts = PartitionFacts("orders-0", NOW_MS, leader=1, last_stable=9, high_watermark=9, is_disk_full=True)
    found = explain_partition(facts)
    (told,) = found.evidence
    assert told.startswith("the disk of broker 1 is full: producers are told KAFKA_STORAGE_ERROR")
    assert found.cause == "disk_full"
    remedy = "Make room on the broker's disk: retention.bytes, `eosin topics delete`, or a larger disk."
    assert found.text == f"orders-0 takes no records: the disk of broker 1 is full; readers go on. {remedy}"
    topic = explain_topic("orders", [facts])
    assert topic.text == f"orders takes no records: the disk of broker 1 is full; readers go on. {remedy}"


def group_of(*partitions: GroupPartition, members: int = 1, held_by: tuple[str, ...] = ()) -> GroupFacts:
    who = tuple(ClientIdentity(client_id=f"reader-{number}") for number in range(members))
    return GroupFacts("readers", NOW_MS, "Stable", who, partitions, held_by)


def test_a_long_sentence_about_a_group_names_who_holds_it_back_and_leaves_what_the_offsets_are_to_the_evidence() -> (
    None
):
    behind = GroupPartition("orders-0", 15, 40, 41, records=9, control_records=7)
    uncommitted = GroupPartition("orders-1", -1, 2, 2)
    found = explain_group(group_of(behind, uncommitted, held_by=("billing-of-the-evening",)))
    assert found.sentence == (
        "group readers: Stable, 1 member, lag 9, and nothing committed for orders-1 with up to 2 offsets to read, and 1"
        " undecided behind the open transaction of billing-of-the-evening."
    )
    assert found.evidence[0] == "orders-0: committed 15, lag 9, 7 control records, 1 undecided"


def test_an_offset_that_is_deleted_or_not_written_yet_is_the_cause() -> None:
    begins = "A reader that begins there is told OFFSET_OUT_OF_RANGE and goes where its auto.offset.reset says;"
    found = explain_group(group_of(GroupPartition("orders-0", 2, 9, 10, records=4, log_start=5), members=0))
    assert found.cause == "offset_out_of_range"
    assert found.text == (
        "group readers: Stable, 0 members, lag 4, and 1 undecided behind open transactions, and offset 2 that it has"
        f" committed for orders-0 has been deleted: the log begins at 5. {begins} `eosin groups reset-offsets` puts the"
        " group elsewhere."
    )
    assert found.evidence == ("orders-0: committed 2, and the log has 5 to 10",)
    beyond = GroupPartition("orders-0", 100, 10, 10, records=0)
    found = explain_group(group_of(beyond, GroupPartition("orders-1", 7, 9, 9, records=2), beyond))
    assert found.cause == "offset_out_of_range"
    assert found.sentence == (
        "group readers: Stable, 1 member, lag 2, and offset 100 that it has committed for orders-0 (and 1 partition"
        " more) is beyond the end of the log, 10."
    )
    assert found.next is not None
    assert found.next.what.endswith("puts the group elsewhere while nobody reads.")
    # At either end of the log there is nothing wrong.
    at_ends = [GroupPartition("orders-0", 5, 10, 10, records=5, log_start=5), GroupPartition("orders-1", 9, 9, 9)]
    assert explain_group(group_of(*at_ends)).cause == "lag"


def test_a_member_that_has_read_nothing_yet_names_who_holds_it_back() -> None:
    found = explain_group(group_of(GroupPartition("orders-0", -1, 0, 7), held_by=("invoicing",)))
    assert found.sentence == (
        "group readers: Stable, 1 member, and nothing committed, and 7 undecided behind the open transaction of"
        " invoicing."
    )
    assert (found.cause, found.evidence) == ("open_transaction", ("orders-0: nothing committed, 7 undecided",))


def test_partitions_without_a_commit_count_beside_others() -> None:
    read = GroupPartition("orders-0", 5, 5, 5)
    new = GroupPartition("orders-1", -1, 30, 2_531)
    facts = GroupFacts("readers", NOW_MS, "Stable", (), (read, new), ("invoicing",), last_commit_ms=NOW_MS - 180_000)
    found = explain_group(facts)
    assert found.sentence == (
        "group readers: Stable, 0 members, lag 0, and nothing committed for orders-1 with up to 30 offsets to read, and"
        " 2,501 undecided behind the open transaction of invoicing."
    )
    assert found.cause == "open_transaction"
    assert found.evidence == (
        "it committed last at 22:10:20.000 (180 s ago)",
        "orders-1: nothing committed, up to 30 offsets to read, 2,501 undecided",
    )
    grows = explain_group(replaced(facts, arrived=2_400))
    assert grows.evidence[0] == "it committed last at 22:10:20.000 (180 s ago), and its lag grows: 2,400 offsets since"


def test_readers_that_never_commit_are_told_to() -> None:
    found = explain_group(group_of(GroupPartition("orders-0", -1, 30, 30)))
    assert found.cause == "nothing_committed"
    assert found.text == (
        "group readers: Stable, 1 member, and nothing committed of 1 partition with up to 30 offsets to read. Its"
        " readers have got nothing yet, or never commit: with enable.auto.commit=false the application must, or its"
        " transactions (sendOffsetsToTransaction)."
    )


async def test_a_group_tells_when_it_committed_last_and_what_has_come_since(broker: ObservedBroker) -> None:
    producer = await idempotent(await broker.wire())
    await producer.append(ORDERS_0, 3)
    async with Client(broker.address) as client:
        await GroupAdmin(client).commit("readers", {ORDERS_0: 1})
    found = await broker.explain("readers", "group")
    assert without_times(found.evidence[0]).startswith("it committed last at T (D ago)")


async def test_a_group_is_asked_for_what_its_members_read_and_what_was_deleted(broker: ObservedBroker) -> None:
    producer = await broker.producer("invoicing")
    await producer.append(ORDERS_0, 6)
    await producer.commit_offsets("late", ORDERS_0, 2)
    await producer.commit()
    await producer.completed()
    async with Client(broker.address) as client:
        await Admin(client).delete_records(ORDERS_0, 5)
    found = await broker.explain("late", "group")
    assert found.cause == "offset_out_of_range"
    assert "lag 1 (log ends are 2 offsets further: 1 record, 1 control record)" in found.sentence
    assert "and offset 2 that it has committed for orders-0 has been deleted: the log begins at 5" in found.sentence


NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("facts", "cause", "sentence"),
    [
        (
            PartitionFacts("orders-0", NOW_MS, leader=-1, error="LEADER_NOT_AVAILABLE"),
            "no_leader",
            "orders-0 has no leader: nothing of it can be read or written. `eosin cluster describe` shows which broker"
            " is missing: start it.",
        ),
        (
            PartitionFacts("orders-0", NOW_MS, leader=1, last_stable=4, high_watermark=9),
            "",
            "orders-0: committed readers stand at 4, 5 records behind: markers have been written and are not durable"
            " yet.",
        ),
        (
            PartitionFacts(
                "orders-0",
                NOW_MS,
                leader=1,
                last_stable=4,
                high_watermark=9,
                open=(OpenProducer(7, 2, 4, is_asked=False),),
            ),
            "unknown",
            "orders-0: committed readers stand at 4, 5 records behind: a transaction of producer 7/2; not all"
            " coordinators could be asked about it.",
        ),
        (
            PartitionFacts(
                "orders-0",
                NOW_MS,
                leader=1,
                last_stable=4,
                high_watermark=9,
                open=(
                    OpenProducer(
                        7,
                        2,
                        4,
                        transaction=TransactionFacts(
                            "bank", NOW_MS, "Ongoing", start_ms=NOW_MS - 7_200_000, never_times_out=True
                        ),
                    ),
                ),
            ),
            "prepared",
            "orders-0: committed readers stand at 4 since 20:13:20.000, 5 records behind: the transaction of bank"
            " (producer 7/2), open for 2 h. It is kept until its database decides (KIP-939); `eosin"
            " transactions force-terminate bank` aborts it now, what it has written is lost.",
        ),
        (
            PartitionFacts(
                "orders-0",
                NOW_MS,
                leader=1,
                last_stable=4,
                high_watermark=9,
                open=(OpenProducer(7, 2, 4, transaction=TransactionFacts("bank", NOW_MS, "PrepareCommit")),),
            ),
            "markers_pending",
            "orders-0: committed readers stand at 4, 5 records behind: the transaction of bank (producer 7/2) is"
            " decided, and its marker is not written here yet. The coordinator goes on trying; until then requests of"
            " the id get CONCURRENT_TRANSACTIONS.",
        ),
    ],
)
def test_rare_states_have_their_sentences(facts: PartitionFacts, cause: str, sentence: str) -> None:
    found = explain_partition(facts)
    assert (found.cause, found.text) == (cause, sentence)


def test_too_few_replicas_in_sync_are_the_cause_where_nothing_else_is() -> None:
    facts = PartitionFacts("orders-0", NOW_MS, leader=1, last_stable=9, high_watermark=9, replicas=Replicas(3, 1, 2))
    found = explain_partition(facts)
    assert found.cause == "too_few_in_sync"
    assert found.evidence == (
        "producers with acks=all are refused with NOT_ENOUGH_REPLICAS: 1 of 3 replicas is in sync, and"
        " min.insync.replicas asks for 2; it ends when another one has caught up",
    )
    enough = PartitionFacts("orders-0", NOW_MS, leader=1, last_stable=9, high_watermark=9, replicas=Replicas(3, 2, 2))
    assert (explain_partition(enough).cause, explain_partition(enough).evidence) == ("", ())


async def test_a_coordinator_that_loads_or_is_not_there_says_so(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, cause, why in (
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "coordinator_loading", "its coordinator still reads its log"),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "no_coordinator", "no broker coordinates it now"),
    ):

        async def away(*_: object, code: ErrorCode = error) -> None:
            raise BrokerError(code, "asking")

        with monkeypatch.context() as patched:
            patched.setattr(TransactionAdmin, "describe", away)
            patched.setattr(GroupAdmin, "describe", away)
            found = await broker.explain("invoicing")
            assert (found.cause, found.is_known) == (cause, False)
            assert found.sentence == (
                f"invoicing: what this transactional id does is not known now, {why} ({error.name})."
            )
            told = await broker.explain("orders-0")
            assert told.sentence.startswith("orders-0: no transaction is open")
            assert told.evidence[-1] == (
                "whether there is a transactional id or a group of that name, too, is not told: its coordinator is not"
                " ready"
            )


async def test_replicas_and_their_least_number_are_asked_of_the_cluster(
    broker: ObservedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(broker.address) as client:
        await Admin(client).alter_configs("orders", {"min.insync.replicas": "2"})
    fetch_metadata = Client.fetch_metadata

    async def with_three(client: Client, *topics: Any, **how: Any) -> ClusterMetadata:
        found = await fetch_metadata(client, *topics, **how)
        for topic in found.topics.values():
            for index, known in topic.partitions.items():
                topic.partitions[index] = replace(known, replicas=(1, 2, 3), in_sync=(1,))
        return found

    monkeypatch.setattr(Client, "fetch_metadata", with_three)
    found = await broker.explain("orders-0")
    assert found.cause == "too_few_in_sync"
    assert "1 of 3 replicas is in sync, and min.insync.replicas asks for 2" in found.evidence[-1]
