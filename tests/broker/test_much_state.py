"""Small requests at a broker that holds much: no step of the event loop is long (security.md 6.2). Each case took one
of 30 to 60 ms."""

from collections.abc import Callable

import pytest
from guarded_broker import ADMIN, GuardedBroker, guarded_broker
from loop_steps import LoopSteps
from waiting import until

from eosin.broker.handlers.registry import BY_KEY
from eosin.coordinator.groups.rules.group import Group, GroupState, Member
from eosin.coordinator.groups.rules.offset_store import CommittedOffset, OffsetStore
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.transactions.entries import TransactionEntry
from eosin.coordinator.transactions.rules.many_partitions import grouped
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from eosin.model.quota_table import USER, QuotaKey
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.delete_topics import DeleteTopicsRequest, DeleteTopicState
from eosin.protocol.schemas.describe_client_quotas import DescribeClientQuotasRequest
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from eosin.protocol.schemas.list_groups import ListGroupsRequest
from eosin.protocol.types import Message
from eosin.storage.producers.entry import ProducerEntry

MOST_S = 0.025
MANY = 20_000
TOPICS = 150


def held_offsets(broker: GuardedBroker) -> OffsetStore:
    shard = broker.server.services.groups._shards.of_group("held")
    assert isinstance(shard, Shard)
    return shard.commits.offsets


async def kept_by(broker: GuardedBroker, key: ApiKey, request: Message) -> LoopSteps:
    """The longest step of a broker that answers this request."""
    peer = broker.peer(ADMIN)
    sent = peer.transport.sent
    frame = peer.frame(key, BY_KEY[key].versions[-1], request)
    with LoopSteps() as steps:
        steps.begin(peer.transport.feed, frame, piece=len(frame))
        await until(lambda: len(sent) >= 4 + int.from_bytes(sent[:4], "big") > 4, every_s=0.001)
        offsets = held_offsets(broker)
        await until(lambda: not offsets.committed("held"), every_s=0.001)  # those of a topic go after the answer
    assert len(peer.answers()) == 1
    return steps


def hold_producers(broker: GuardedBroker) -> None:
    (log,) = broker.server.logs.logs_of("t-0")
    for producer_id in range(MANY):
        log.producer_state.adopt(ProducerEntry(producer_id, producer_epoch=0), 0)


def hold_groups(broker: GuardedBroker) -> None:
    shard = next(iter(broker.server.services.groups._shards))
    for number in range(2 * MANY):
        shard.groups[f"g-{number}"] = Group(f"g-{number}")


def hold_offsets(broker: GuardedBroker) -> None:
    shard = broker.server.services.groups._shards.of_group("held")
    assert isinstance(shard, Shard)
    shard.create_group("held")
    for number in range(MANY):
        shard.commits.offsets.put("held", TopicPartition("t-1", number), CommittedOffset(number, -1, "", 0))


def hold_members(broker: GuardedBroker) -> None:
    names = [f"m-{number}" for number in range(MANY)]
    members = {name: Member(name, None, "c", "/h", 1_800_000, 60_000, (("range", bytes(40)),)) for name in names}
    group = Group("large", GroupState.STABLE, 0, 1, "consumer", "range", names[0], members)
    shard = broker.server.services.groups._shards.of_group("large")
    assert isinstance(shard, Shard)
    shard.groups["large"] = group


def hold_quotas(broker: GuardedBroker) -> None:
    for number in range(MANY):
        broker.server.services.cluster.quotas.put(((USER, f"u-{number}"),), QuotaKey.REQUEST_PERCENTAGE, 1.0)


def hold_transaction(broker: GuardedBroker) -> None:
    transactions = broker.server.services.transactions
    partitions = grouped(TopicPartition(f"name-{number}", 0) for number in range(MANY))
    txn = Txn("held", 1, producer_epoch=0, state=TransactionState.ONGOING, start_ms=1, partitions=partitions)
    transactions._entries["held"] = TransactionEntry(txn, next(iter(transactions._owned.values())))


ASKED: dict[str, tuple[Callable[[GuardedBroker], None], ApiKey, Message]] = {
    "the configs of some topics, with all that is known of them": (
        lambda broker: None,
        ApiKey.DESCRIBE_CONFIGS,
        DescribeConfigsRequest(tuple(DescribeConfigsResource(2, f"t-{n}") for n in range(TOPICS)), True, True),
    ),
    "the producers of one partition": (
        hold_producers,
        ApiKey.DESCRIBE_PRODUCERS,
        DescribeProducersRequest((TopicRequest("t-0", (0,)),)),
    ),
    "all groups": (hold_groups, ApiKey.LIST_GROUPS, ListGroupsRequest()),
    "a classic group of many members": (
        hold_members,
        ApiKey.DESCRIBE_GROUPS,
        DescribeGroupsRequest(groups=("large",)),
    ),
    "all quotas": (hold_quotas, ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest()),
    "a transaction of many topics": (
        hold_transaction,
        ApiKey.DESCRIBE_TRANSACTIONS,
        DescribeTransactionsRequest(("held",)),
    ),
    "a group with many offsets goes": (hold_offsets, ApiKey.DELETE_GROUPS, DeleteGroupsRequest(("held",))),
    "a topic goes of which many offsets are committed": (
        hold_offsets,
        ApiKey.DELETE_TOPICS,
        DeleteTopicsRequest((DeleteTopicState("t-1"),), (), 10_000),
    ),
}


@pytest.mark.slow
async def test_a_small_request_about_much_keeps_the_event_loop_for_milliseconds() -> None:
    async with guarded_broker() as broker:
        await broker.create_topics(*(f"t-{number}" for number in range(TOPICS)))
        took = {}
        for name, (hold, key, request) in ASKED.items():
            hold(broker)
            took[name] = await kept_by(broker, key, request)
    assert {name: (steps.longest, steps.longest_s) for name, steps in took.items() if steps.longest_s > MOST_S} == {}
