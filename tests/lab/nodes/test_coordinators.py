"""Coordinators that move between the nodes of one broker."""

import asyncio
from typing import Any

import pytest
from phantom_nodes import PhantomNodes, code, phantom_nodes
from waiting import settled

from eosin.lab.common.errors import LabError
from eosin.lab.nodes.node_apis import GROUP, TRANSACTION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_groups import DescribeGroupsRequest
from eosin.protocol.schemas.describe_transactions import DescribeTransactionsRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.find_coordinator import FindCoordinatorRequest
from eosin.protocol.schemas.heartbeat import HeartbeatRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from eosin.protocol.schemas.list_groups import ListGroupsRequest
from eosin.protocol.schemas.list_transactions import ListTransactionsRequest
from eosin.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from eosin.protocol.schemas.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from eosin.protocol.schemas.sync_group import SyncGroupRequest

WRONG = ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
INIT = InitProducerIdRequest("t", 60_000)


async def found(nodes: PhantomNodes, key: str, key_type: int, at: int = 1) -> int:
    response = await nodes.ask(
        at, ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
    )
    node_id: int = response.coordinators[0].node_id
    return node_id


async def init(nodes: PhantomNodes, node: int) -> Any:
    """Initialise at a node that may have begun to load."""
    await settled()
    return await nodes.ask(node, ApiKey.INIT_PRODUCER_ID, INIT)


def others(node: int) -> list[int]:
    return [each for each in (1, 2, 3) if each != node]


async def test_one_node_coordinates_an_id_and_all_name_it() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "t", 1)
        assert [await found(nodes, "t", 1, at) for at in (2, 3)] == [home, home]
        for other in others(home):
            assert code(await nodes.ask(other, ApiKey.INIT_PRODUCER_ID, INIT)) is WRONG
        assert code(await init(nodes, home)) is ErrorCode.NONE


async def test_any_node_gives_a_producer_without_an_id_its_number() -> None:
    async with phantom_nodes() as nodes:
        for node in (1, 2, 3):
            response = await nodes.ask(node, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000))
            assert code(response) is ErrorCode.NONE


async def test_an_id_goes_on_at_its_new_coordinator() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "t", 1)
        first = await init(nodes, home)
        assert nodes.nodes.move_coordinator(TRANSACTION, "t", None, away_ms=0, loading_ms=0) == home % 3 + 1
        assert await found(nodes, "t", 1) == home % 3 + 1
        assert code(await nodes.ask(home, ApiKey.INIT_PRODUCER_ID, INIT)) is WRONG
        second = await init(nodes, home % 3 + 1)
        assert (second.producer_id, second.producer_epoch) == (first.producer_id, first.producer_epoch + 1)


async def test_a_new_coordinator_loads_for_as_long_as_it_is_told() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "t", 1)
        await init(nodes, home)
        nodes.nodes.move_coordinator(TRANSACTION, "t", 3, away_ms=20, loading_ms=20)
        seen = [code(await init(nodes, 3))]
        for ms in (19, 1, 19, 1):
            nodes.clock.advance(ms)
            seen.append(code(await init(nodes, 3)))
        assert seen == [WRONG, WRONG, LOADING, LOADING, ErrorCode.NONE]


async def test_a_second_move_overtakes_the_load_of_the_first() -> None:
    async with phantom_nodes() as nodes:
        await init(nodes, await found(nodes, "t", 1))
        nodes.nodes.move_coordinator(TRANSACTION, "t", 3, away_ms=0, loading_ms=600_000)
        assert code(await nodes.ask(3, ApiKey.INIT_PRODUCER_ID, INIT)) is LOADING
        nodes.nodes.move_coordinator(TRANSACTION, "t", 2, away_ms=0, loading_ms=0)
        assert code(await nodes.ask(3, ApiKey.INIT_PRODUCER_ID, INIT)) is WRONG
        assert code(await init(nodes, 2)) is ErrorCode.NONE


async def test_the_coordinator_of_one_node_goes_away_and_comes_back() -> None:
    async with phantom_nodes(1) as nodes:
        first = await init(nodes, 1)
        assert nodes.nodes.move_coordinator(TRANSACTION, "t", None, away_ms=600_000, loading_ms=0) == 1
        end = EndTxnRequest("t", first.producer_id, first.producer_epoch)
        assert code(await nodes.ask(1, ApiKey.END_TXN, end, 3)) is WRONG
        nodes.nodes.move_coordinator(TRANSACTION, "t", 1, away_ms=0, loading_ms=600_000)
        assert code(await nodes.ask(1, ApiKey.END_TXN, end, 3)) is LOADING
        nodes.nodes.move_coordinator(TRANSACTION, "t", 1, away_ms=0, loading_ms=0)
        assert (await init(nodes, 1)).producer_epoch == first.producer_epoch + 1


async def test_members_keep_their_place_while_the_coordinator_of_their_group_loads() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "g", 0)
        nodes.nodes.move_coordinator(GROUP, "g", home, away_ms=0, loading_ms=600_000)
        assert code(await nodes.ask(home, ApiKey.HEARTBEAT, HeartbeatRequest("g", 1, "m"))) is ErrorCode.NONE
        sync = await nodes.ask(home, ApiKey.SYNC_GROUP, SyncGroupRequest("g", 1, "m"))
        assert code(sync) is ErrorCode.REBALANCE_IN_PROGRESS
        for other in others(home):
            assert code(await nodes.ask(other, ApiKey.HEARTBEAT, HeartbeatRequest("g", 1, "m"))) is WRONG


def joining(member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest("g", 10_000, 10_000, member_id, None, "consumer", (JoinGroupRequestProtocol("range"),))


async def test_a_member_that_waits_for_a_rebalance_hears_that_its_coordinator_has_moved() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "g", 0)
        first = await nodes.ask(home, ApiKey.JOIN_GROUP, joining(), 3)
        assert code(first) is ErrorCode.NONE
        waiting = asyncio.ensure_future(nodes.ask(home, ApiKey.JOIN_GROUP, joining(), 3))
        await settled()
        assert not waiting.done()
        nodes.nodes.move_coordinator(GROUP, "g", None, away_ms=0, loading_ms=0)
        assert code(await waiting) is WRONG


async def test_committed_offsets_are_there_at_the_new_coordinator() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "g", 0)
        topic = OffsetCommitRequestTopic("orders", partitions=(OffsetCommitRequestPartition(0, 7),))
        commit = OffsetCommitRequest("g", topics=(topic,))
        for other in others(home):
            refused = await nodes.ask(other, ApiKey.OFFSET_COMMIT, commit, 8)
            assert code(refused.topics[0].partitions[0]) is WRONG
        done = await nodes.ask(home, ApiKey.OFFSET_COMMIT, commit, 8)
        assert code(done.topics[0].partitions[0]) is ErrorCode.NONE
        moved = nodes.nodes.move_coordinator(GROUP, "g", None, away_ms=0, loading_ms=0)
        wanted = OffsetFetchRequestGroup("g", topics=(OffsetFetchRequestTopics("orders", partition_indexes=(0,)),))
        request = OffsetFetchRequest(groups=(wanted,))
        assert code((await nodes.ask(home, ApiKey.OFFSET_FETCH, request, 8)).groups[0]) is WRONG
        await settled()
        answer = await nodes.ask(moved, ApiKey.OFFSET_FETCH, request, 8)
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 7


async def test_several_groups_are_answered_each_by_its_own_coordinator_in_their_order() -> None:
    async with phantom_nodes() as nodes:
        names = tuple(f"g{number}" for number in range(6))
        homes = {name: await found(nodes, name, 0) for name in names}
        assert set(homes.values()) == {1, 2}
        for node in (1, 2, 3):
            response = await nodes.ask(node, ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(names), 5)
            assert [each.group_id for each in response.groups] == list(names)
            assert [code(each) is not WRONG for each in response.groups] == [homes[name] == node for name in names]


async def test_a_node_lists_what_it_coordinates() -> None:
    async with phantom_nodes() as nodes:
        ids = tuple(f"t{number}" for number in range(6))
        homes = {each: await found(nodes, each, 1) for each in ids}
        for each in ids:
            await nodes.ask(homes[each], ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(each, 60_000))
        for node in (1, 2, 3):
            listed = await nodes.ask(node, ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest())
            assert {each.transactional_id for each in listed.transaction_states} == {
                each for each in ids if homes[each] == node
            }
            described = await nodes.ask(node, ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(ids))
            assert [code(each) is not WRONG for each in described.transaction_states] == [
                homes[each] == node for each in ids
            ]
            assert (await nodes.ask(node, ApiKey.LIST_GROUPS, ListGroupsRequest())).groups == ()


async def test_the_coordinators_of_a_dead_node_come_up_at_another() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "t", 1)
        first = await init(nodes, home)
        await nodes.nodes.down(home, elect=False)
        assert nodes.broker.services.transactions.txn("t") is None
        assert await found(nodes, "t", 1, others(home)[0]) == home
        await nodes.nodes.down(home, elect=True)
        now = await found(nodes, "t", 1, others(home)[0])
        assert now != home
        assert (await init(nodes, now)).producer_epoch == first.producer_epoch + 1


async def test_the_coordinators_of_a_node_that_comes_back_unnoticed_load_there_again() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "t", 1)
        await init(nodes, home)
        await nodes.nodes.down(home, elect=False)
        nodes.nodes.up(home)
        assert await found(nodes, "t", 1) == home
        await settled()
        assert nodes.broker.services.transactions.txn("t") is not None
        assert code(await init(nodes, home)) is ErrorCode.NONE


async def test_a_group_rebalances_because_an_operator_wants_it() -> None:
    async with phantom_nodes() as nodes:
        home = await found(nodes, "g", 0)
        first = await nodes.ask(home, ApiKey.JOIN_GROUP, joining(), 3)
        groups = nodes.broker.services.groups
        assert groups.rebalance("g") is ErrorCode.NONE
        beat = HeartbeatRequest("g", first.generation_id, first.member_id)
        assert code(await nodes.ask(home, ApiKey.HEARTBEAT, beat)) is ErrorCode.REBALANCE_IN_PROGRESS
        again = await nodes.ask(home, ApiKey.JOIN_GROUP, joining(first.member_id), 3)
        assert (again.member_id, again.generation_id) == (first.member_id, first.generation_id + 1)
        assert groups.rebalance("nobody") is ErrorCode.GROUP_ID_NOT_FOUND


async def test_coordinators_that_cannot_move_so_are_refused_in_a_sentence() -> None:
    async with phantom_nodes() as nodes:
        move = nodes.nodes.move_coordinator
        with pytest.raises(LabError, match='there is no kind of coordinator "transactions"; did you mean transaction'):
            move("transactions", "t", None, away_ms=0, loading_ms=0)
        with pytest.raises(LabError, match="name the group whose coordinator moves"):
            move(GROUP, "", None, away_ms=0, loading_ms=0)
        with pytest.raises(LabError, match="loading_ms is 0 to 600000, not -1"):
            move(GROUP, "g", None, away_ms=0, loading_ms=-1)
