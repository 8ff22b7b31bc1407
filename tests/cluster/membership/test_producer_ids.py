"""Blocks of producer ids: each is asked for with the epoch of now, and checked."""

import pytest
from stub_broker import StubBroker

from eosin.cluster.membership.channel import ControllerChannel
from eosin.cluster.membership.producer_ids import NoProducerIds, QuorumProducerIds, checked_block
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from eosin.runtime.clock import SystemClock


def block(start: int, length: int = 1000) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=length)


@pytest.mark.parametrize(("start", "length"), [(5000, 1000), (7000, 1), (2**63 - 1001, 1000)])
def test_a_block_behind_the_last_one_is_taken(start: int, length: int) -> None:
    assert checked_block(block(start, length), after=5000) == range(start, start + length)


@pytest.mark.parametrize(
    ("start", "length"), [(4999, 1000), (-1, 1000), (5000, 0), (5000, -5), (2**63 - 1000, 1000), (2**63 - 1, 1)]
)
def test_a_block_that_would_repeat_ids_is_refused(start: int, length: int) -> None:
    with pytest.raises(NoProducerIds, match="after ids up to 5000"):
        checked_block(block(start, length), after=5000)


@pytest.mark.parametrize("error", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED])
def test_an_error_is_no_block(error: ErrorCode) -> None:
    with pytest.raises(NoProducerIds, match=f"error {int(error)}"):
        checked_block(AllocateProducerIdsResponse(error_code=error), after=0)


@pytest.mark.process
async def test_each_request_carries_the_broker_epoch_of_now() -> None:
    class Leader:
        node_id, epoch, host, port = 1000, 1, "", 0

    async with StubBroker() as controller:
        Leader.host, Leader.port = controller.address
        blocks = iter((block(0), AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), block(3000)))
        controller.answers[ApiKey.ALLOCATE_PRODUCER_IDS] = lambda *_: next(blocks)
        epochs = iter((40, 40, 47))
        channel = ControllerChannel(Leader, clock=SystemClock(), client_id="broker-3")
        source = QuorumProducerIds(channel, node_id=3, broker_epoch=lambda: next(epochs))
        assert await source.allocate_block() == range(0, 1000)
        with pytest.raises(NoProducerIds):
            await source.allocate_block()
        assert await source.allocate_block() == range(3000, 4000)
        assert controller.requests(ApiKey.ALLOCATE_PRODUCER_IDS) == [
            AllocateProducerIdsRequest(3, 40),
            AllocateProducerIdsRequest(3, 40),
            AllocateProducerIdsRequest(3, 47),
        ]
        await channel.close()
