"""Which requests of one connection wait for which, when they are about transactions."""

import asyncio
from typing import Any

import msgspec
import pytest

from eosin.network.transaction_order import IN_ORDER, TransactionOrder, transactional_id_of
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest
from eosin.protocol.schemas.add_partitions_to_txn import AddPartitionsToTxnRequest
from eosin.protocol.schemas.end_txn import EndTxnRequest
from eosin.protocol.schemas.fetch import FetchRequest
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest
from eosin.protocol.schemas.produce import ProduceRequest
from eosin.protocol.schemas.txn_offset_commit import TxnOffsetCommitRequest

pytestmark = pytest.mark.virtual

ENDS = {ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID}
REQUESTS: dict[ApiKey, Any] = {
    ApiKey.PRODUCE: ProduceRequest(transactional_id="tx"),
    ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest(transactional_id="tx"),
    ApiKey.ADD_PARTITIONS_TO_TXN: AddPartitionsToTxnRequest(v3_and_below_transactional_id="tx"),
    ApiKey.ADD_OFFSETS_TO_TXN: AddOffsetsToTxnRequest(transactional_id="tx"),
    ApiKey.END_TXN: EndTxnRequest(transactional_id="tx"),
    ApiKey.TXN_OFFSET_COMMIT: TxnOffsetCommitRequest(transactional_id="tx"),
}
ID_FIELD = {ApiKey.ADD_PARTITIONS_TO_TXN: "v3_and_below_transactional_id"}


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Requests:
    """Requests of one connection; each begins when it may, and is answered when the test says so."""

    def __init__(self) -> None:
        self.order = TransactionOrder()
        self.begun: list[str] = []
        self._answers: dict[str, asyncio.Future[str]] = {}

    def send(self, name: str, key: ApiKey, transactional_id: str = "tx") -> "asyncio.Future[Any] | None":
        request = msgspec.structs.replace(REQUESTS[key], **{ID_FIELD.get(key, "transactional_id"): transactional_id})
        waiting = self.order.queued(key, request, lambda: self._begin(name))
        if waiting is not None:
            self.order.add(key, request, waiting)
        return waiting

    def _begin(self, name: str) -> "asyncio.Future[Any]":
        self.begun.append(name)
        answer = self._answers[name] = asyncio.get_running_loop().create_future()
        return answer

    async def answer(self, name: str) -> None:
        self._answers[name].set_result(name)
        await turns()


@pytest.mark.parametrize("second", sorted(IN_ORDER))
@pytest.mark.parametrize("first", sorted(IN_ORDER))
async def test_a_request_waits_for_the_one_before_unless_records_are_all_that_it_could_wait_for(
    first: ApiKey, second: ApiKey
) -> None:
    requests = Requests()
    requests.send("first", first)
    later = requests.send("second", second)
    waits = first is not ApiKey.PRODUCE or second in ENDS
    assert requests.begun == (["first"] if waits else ["first", "second"])
    await requests.answer("first")
    assert requests.begun == ["first", "second"]
    await requests.answer("second")
    assert later is not None
    assert await later == "second"


async def test_other_ids_and_other_connections_wait_for_nobody() -> None:
    requests, elsewhere = Requests(), Requests()
    requests.send("one", ApiKey.END_TXN)
    requests.send("two", ApiKey.END_TXN, "another")
    elsewhere.send("one", ApiKey.END_TXN)
    assert (requests.begun, elsewhere.begun) == (["one", "two"], ["one"])


async def test_the_end_waits_for_everything_before_it() -> None:
    requests = Requests()
    for name in ("one", "two"):
        requests.send(name, ApiKey.PRODUCE)
    requests.send("end", ApiKey.END_TXN)
    requests.send("next", ApiKey.PRODUCE)
    await requests.answer("two")
    assert "end" not in requests.begun
    await requests.answer("one")
    assert requests.begun[2:] == ["end"]
    await requests.answer("end")
    assert requests.begun[3:] == ["next"]


async def test_one_that_fails_or_is_given_up_keeps_nobody_waiting() -> None:
    requests = Requests()
    failing = requests.send("fails", ApiKey.END_TXN)
    requests.send("next", ApiKey.END_TXN)
    requests._answers["fails"].set_exception(OSError("gone"))
    assert failing is not None
    with pytest.raises(OSError, match="gone"):
        await failing
    await turns()
    assert requests.begun == ["fails", "next"]
    requests._answers["next"].cancel()
    await turns()
    requests.send("last", ApiKey.END_TXN)
    assert requests.begun == ["fails", "next", "last"]


async def test_no_request_waits_for_one_that_was_answered_at_once() -> None:
    requests = Requests()
    assert requests.order.queued(ApiKey.END_TXN, REQUESTS[ApiKey.END_TXN], lambda: None) is None
    assert not requests.order.unanswered
    requests.send("next", ApiKey.END_TXN)
    assert requests.begun == ["next"]
    assert requests.order
    await requests.answer("next")
    assert not requests.order.unanswered


async def test_requests_without_a_transaction_are_not_in_order() -> None:
    requests = Requests()
    requests.send("end", ApiKey.END_TXN)
    for key, request in ((ApiKey.PRODUCE, ProduceRequest()), (ApiKey.FETCH, FetchRequest())):
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        assert requests.order.queued(key, request, lambda waiting=waiting: waiting) is waiting
        requests.order.add(key, request, waiting)
    assert list(requests.order.unanswered) == ["tx"]


def test_every_such_request_tells_its_transactional_id() -> None:
    assert REQUESTS.keys() == IN_ORDER
    assert {transactional_id_of(key, request) for key, request in REQUESTS.items()} == {"tx"}
    assert transactional_id_of(ApiKey.PRODUCE, ProduceRequest()) is None
