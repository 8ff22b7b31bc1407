"""Groups of the new protocols are refused with a sentence, and each of them is told once in the log."""

import logging
import re

import pytest
from data_broker import DataBroker, refused
from guarded_broker import ADMIN, GuardedBroker, guarded_broker

from eosin.broker.handlers import (
    alter_share_group_offsets,
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    streams_group_topology_description_update,
    update_features,
)
from eosin.broker.unserved_groups import MAX_GROUPS, GroupProtocol
from eosin.model.features import LEVELS_OF_NEW_DIRECTORIES
from eosin.network.api import Api, RequestContext
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from eosin.protocol.schemas.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from eosin.protocol.schemas.share_acknowledge import ShareAcknowledgeRequest
from eosin.protocol.schemas.share_fetch import ShareFetchRequest
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest
from eosin.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from eosin.protocol.types import Message
from eosin.runtime.log_budget import LINES, WINDOW_MS

ASKED = ("a", "b", "a")
GROUPS = tuple(DescribeShareGroupOffsetsRequestGroup(each) for each in ASKED)
WHOLE: dict[Api, Message] = {
    consumer_group_heartbeat.API: ConsumerGroupHeartbeatRequest("g"),
    share_group_heartbeat.API: ShareGroupHeartbeatRequest("g"),
    streams_group_heartbeat.API: StreamsGroupHeartbeatRequest("g"),
    streams_group_topology_description_update.API: StreamsGroupTopologyDescriptionUpdateRequest("g"),
    share_fetch.API: ShareFetchRequest("g"),
    share_acknowledge.API: ShareAcknowledgeRequest("g"),
    alter_share_group_offsets.API: AlterShareGroupOffsetsRequest("g"),
    delete_share_group_offsets.API: DeleteShareGroupOffsetsRequest("g"),
}
EACH: dict[Api, Message] = {
    consumer_group_describe.API: ConsumerGroupDescribeRequest(ASKED),
    share_group_describe.API: ShareGroupDescribeRequest(ASKED),
    streams_group_describe.API: StreamsGroupDescribeRequest(ASKED),
    describe_share_group_offsets.API: DescribeShareGroupOffsetsRequest(GROUPS),
}
CONTEXT = RequestContext(api_version=0, client_id="c", client_host="/127.0.0.1", listener="PLAINTEXT")


async def unserving() -> DataBroker:
    """A broker that serves none of the new protocols, as one whose directory is older."""
    broker = await DataBroker.started()
    lowered = tuple(FeatureUpdateKey(each, 0, upgrade_type=2) for each in LEVELS_OF_NEW_DIRECTORIES)
    answer = await broker.call(update_features.API, UpdateFeaturesRequest(feature_updates=lowered))
    assert answer.error_code == ErrorCode.NONE
    return broker


def versions_of(requests: dict[Api, Message]) -> list[object]:
    return [
        pytest.param(api, message, version, id=f"{api.key.name} v{version}")
        for api, message in requests.items()
        for version in api.versions
    ]


@pytest.mark.parametrize(("api", "message", "version"), versions_of(WHOLE))
async def test_a_request_of_a_new_protocol_hears_how_to_go_on_without_it(
    api: Api, message: Message, version: int
) -> None:
    answer = await (await unserving()).call(api, message, version)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "group.protocol=classic" in answer.error_message
    assert re.search(r"`eosin features upgrade (group|share|streams)\.version`", answer.error_message)
    told = refused(api, message, ErrorCode.UNKNOWN_SERVER_ERROR, version)
    assert (told.error_code, told.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


@pytest.mark.parametrize(("api", "message", "version"), versions_of(EACH))
async def test_each_group_that_is_asked_for_has_an_entry_of_its_own(api: Api, message: Message, version: int) -> None:
    # librdkafka ends its process when an entry is missing or has another name.
    answer = await (await unserving()).call(api, message, version)
    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        (group, ErrorCode.UNSUPPORTED_VERSION) for group in ASKED
    ]
    assert all("group.protocol=classic" in each.error_message for each in answer.groups)
    assert all("`eosin features upgrade " in each.error_message for each in answer.groups)
    told = refused(api, message, ErrorCode.UNKNOWN_SERVER_ERROR, version)
    assert [each.error_code for each in told.groups] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 3


@pytest.mark.parametrize("protocol", ["consumer", "streams"])
async def test_a_protocol_that_the_settings_leave_out_is_refused_and_share_groups_never_are(protocol: str) -> None:
    named = tuple(each for each in ("classic", "consumer", "streams") if each != protocol)
    broker = await DataBroker.started(group_coordinator_rebalance_protocols=named)
    for api, message in {**WHOLE, **EACH}.items():
        answer = await broker.call(api, message)
        for each in getattr(answer, "groups", None) or (answer,):
            is_refused = each.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert is_refused is (protocol.upper() in api.key.name), api.key
            if is_refused:
                assert f"group.coordinator.rebalance.protocols leaves {protocol} out" in each.error_message
                assert "group.protocol=classic" in each.error_message
    assert broker.cluster.features.finalized.items() >= LEVELS_OF_NEW_DIRECTORIES.items(), "as Apache Kafka tells them"


async def test_that_a_protocol_is_not_served_is_told_before_a_denial() -> None:
    """As Apache Kafka 4.4.0 does: who asks for a right that would not help hears so at once."""
    async with guarded_broker() as broker:
        lowered = tuple(FeatureUpdateKey(each, 0, upgrade_type=2) for each in LEVELS_OF_NEW_DIRECTORIES)
        denied = {api.key: await _errors(broker, api, message) for api, message in {**WHOLE, **EACH}.items()}
        assert set(denied.values()) == {(ErrorCode.GROUP_AUTHORIZATION_FAILED,)}, denied
        request = UpdateFeaturesRequest(feature_updates=lowered)
        assert (await broker.ask(ADMIN, ApiKey.UPDATE_FEATURES, request, version=1)).error_code == ErrorCode.NONE
        told = {api.key: await _errors(broker, api, message) for api, message in {**WHOLE, **EACH}.items()}
        assert set(told.values()) == {(ErrorCode.UNSUPPORTED_VERSION,)}, told


async def _errors(broker: GuardedBroker, api: Api, message: Message) -> tuple[ErrorCode, ...]:
    answer = await broker.ask("User:alice", api.key, message)
    return tuple({ErrorCode(each.error_code) for each in (getattr(answer, "groups", None) or (answer,))})


@pytest.mark.parametrize("api", [consumer_group_heartbeat.API, share_group_heartbeat.API, streams_group_heartbeat.API])
async def test_a_member_that_is_refused_has_joined_nothing(api: Api) -> None:
    answer = await (await unserving()).call(api, WHOLE[api])
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (0, 0)
    assert not getattr(answer, "assignment", None)


async def test_each_group_is_told_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    groups = (await unserving()).services.unserved_groups
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            for protocol in GroupProtocol:
                groups.refused(protocol, "g", CONTEXT)
        groups.refused(GroupProtocol.SHARE, "h", CONTEXT)
    assert len(caplog.messages) == len(GroupProtocol) + 1
    assert caplog.messages[0].startswith("group 'g' of client 'c' at /127.0.0.1: The consumer rebalance protocol")


async def test_the_number_of_remembered_groups_is_limited(caplog: pytest.LogCaptureFixture) -> None:
    broker = await unserving()
    groups, clock = broker.services.unserved_groups, broker.clock
    with caplog.at_level(logging.WARNING):
        for number in range(MAX_GROUPS + 1):
            groups.refused(GroupProtocol.SHARE, f"g{number}", CONTEXT)
            clock.advance(WINDOW_MS)
        groups.refused(GroupProtocol.SHARE, f"g{MAX_GROUPS}", CONTEXT)
        assert len(caplog.messages) == MAX_GROUPS + 1
        groups.refused(GroupProtocol.SHARE, "g0", CONTEXT)
    assert len(caplog.messages) == MAX_GROUPS + 2


async def test_a_client_that_makes_up_groups_has_a_few_lines_and_their_count(caplog: pytest.LogCaptureFixture) -> None:
    broker = await unserving()
    groups, clock = broker.services.unserved_groups, broker.clock
    with caplog.at_level(logging.WARNING):
        for number in range(10_000):
            groups.refused(GroupProtocol.SHARE, f"g{number}", CONTEXT)
        clock.advance(WINDOW_MS)
    assert len(caplog.messages) == LINES + 1
    assert str(10_000 - LINES) in caplog.messages[-1]
