"""Settings of single groups: changed, described, listed, kept, and obeyed (consumer-groups.md 13)."""

import asyncio
from typing import Any

import pytest
from data_broker import DataBroker

from eosin.broker.handlers import (
    alter_configs,
    consumer_group_heartbeat,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
    update_features,
)
from eosin.model.cluster import ConfigChange, ConfigOperation
from eosin.model.features import GROUP_VERSION
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas import alter_configs as whole
from eosin.protocol.schemas import incremental_alter_configs as incremental
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.schemas.list_config_resources import ListConfigResourcesRequest
from eosin.protocol.schemas.records.cluster_metadata import ConfigKey, ConfigValue
from eosin.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
OF_A_GROUP, OF_THE_START, DEFAULT = 8, 4, 5


async def change(broker: DataBroker, *changes: tuple[str, int, str | None], group: str = "g", dry: bool = False) -> Any:
    configs = tuple(incremental.AlterableConfig(*each) for each in changes)
    resource = incremental.AlterConfigsResource(GROUP, group, configs)
    request = incremental.IncrementalAlterConfigsRequest((resource,), dry)
    (response,) = (await broker.call(incremental_alter_configs.API, request)).responses
    return response


async def described(broker: DataBroker, group: str = "g") -> dict[str, Any]:
    request = DescribeConfigsRequest((DescribeConfigsResource(GROUP, group),), include_synonyms=True)
    (result,) = (await broker.call(describe_configs.API, request)).results
    assert result.error_code == ErrorCode.NONE
    return {each.name: each for each in result.configs}


async def configured(broker: DataBroker) -> list[str]:
    request = ListConfigResourcesRequest(resource_types=(GROUP,))
    found = (await broker.call(list_config_resources.API, request)).config_resources
    return [each.resource_name for each in found if each.resource_type == GROUP]


async def joined(broker: DataBroker, group: str = "g", member: str = "m") -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=100,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    return await broker.call(consumer_group_heartbeat.API, request)


async def serving(**settings: Any) -> DataBroker:
    broker = await DataBroker.started(**settings)
    update = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(GROUP_VERSION, 1, upgrade_type=1),))
    assert (await broker.call(update_features.API, update)).error_code == ErrorCode.NONE
    return broker


async def test_a_setting_of_a_group_is_told_as_its_own_and_the_others_as_the_brokers() -> None:
    broker = await DataBroker.started(
        group_consumer_heartbeat_interval_ms=6000, given={"group.consumer.heartbeat.interval.ms": "6000"}
    )
    before = await described(broker)
    assert (before[SESSION].value, before[SESSION].config_source) == ("45000", DEFAULT)
    assert (await change(broker, (SESSION, SET, "50000"))).error_code == ErrorCode.NONE
    after = await described(broker)
    assert (after[SESSION].value, after[SESSION].config_source) == ("50000", OF_A_GROUP)
    assert [(each.name, each.value, each.source) for each in after[SESSION].synonyms] == [
        (SESSION, "50000", OF_A_GROUP),
        (f"group.{SESSION}", "45000", DEFAULT),
    ]
    assert (after[HEARTBEAT].value, after[HEARTBEAT].config_source) == ("6000", OF_THE_START)
    assert (await described(broker, "other"))[SESSION].value == "45000"


async def test_groups_with_settings_are_listed_whether_they_exist_or_not() -> None:
    broker = await DataBroker.started()
    assert await configured(broker) == []
    await change(broker, (SESSION, SET, "50000"))
    await change(broker, (HEARTBEAT, SET, "6000"), group="h")
    assert await configured(broker) == ["g", "h"]
    await change(broker, (SESSION, DELETE, None))
    assert await configured(broker) == ["h"]
    assert (await described(broker))[SESSION].config_source == DEFAULT


async def test_a_whole_change_puts_what_it_does_not_name_back() -> None:
    broker = await DataBroker.started()
    await change(broker, (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"))
    resource = whole.AlterConfigsResource(GROUP, "g", (whole.AlterableConfig(HEARTBEAT, "7000"),))
    (response,) = (await broker.call(alter_configs.API, whole.AlterConfigsRequest((resource,)))).responses
    assert response.error_code == ErrorCode.NONE
    assert broker.cluster.group_configs("g") == {HEARTBEAT: "7000"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([("consumer.sesion.timeout.ms", SET, "50000")], "Unknown group setting: consumer.sesion.timeout.ms"),
        ([("group.consumer.session.timeout.ms", SET, "50000")], "Unknown group setting"),
        ([(SESSION, SET, "44999")], "from 45000 to 60000, not '44999'"),
        ([(SESSION, SET, "60001")], "from 45000 to 60000"),
        ([(SESSION, SET, "soon")], "an integer in ms"),
        ([(SESSION, SET, "99999999999")], "from 45000 to 60000"),
        ([(HEARTBEAT, SET, "4999")], "from 5000 to 15000"),
        ([(SESSION, SET, "50000"), (HEARTBEAT, SET, "1")], "from 5000 to 15000"),
        ([(SESSION, APPEND, "1")], "is not a list"),
        ([("share.delivery.count.limit", SET, "11")], "from 2 to 10"),
        ([("share.auto.offset.reset", SET, "by_hand")], "by_duration"),
        ([("share.auto.offset.reset", SET, "by_duration:P1W")], "with a duration"),
        ([("share.auto.offset.reset", SET, "by_duration:-PT1H")], "with a duration"),
        ([("share.isolation.level", SET, "read")], "read_uncommitted"),
    ],
)
async def test_a_setting_that_no_group_can_have_is_refused_and_nothing_changes(
    changes: list[tuple[str, int, str]], said: str
) -> None:
    broker = await DataBroker.started()
    response = await change(broker, *changes)
    assert response.error_code == ErrorCode.INVALID_CONFIG
    assert said in response.error_message
    assert await configured(broker) == []


async def test_heartbeats_come_within_the_session_whichever_of_the_two_is_changed() -> None:
    broker = await DataBroker.started(
        group_consumer_min_session_timeout_ms=1000, group_consumer_max_heartbeat_interval_ms=60_000
    )
    for name, value in ((SESSION, "5000"), (HEARTBEAT, "45000")):
        response = await change(broker, (name, SET, value))
        assert response.error_code == ErrorCode.INVALID_CONFIG
        assert "must be greater than consumer.heartbeat.interval.ms" in response.error_message
    assert (await change(broker, (SESSION, SET, "60000"), (HEARTBEAT, SET, "45000"))).error_code == ErrorCode.NONE
    assert (await change(broker, (SESSION, DELETE, None))).error_code == ErrorCode.INVALID_CONFIG


async def test_the_brokers_own_value_may_lie_outside_of_the_range_of_groups() -> None:
    broker = await serving(group_consumer_heartbeat_interval_ms=200)
    assert (await joined(broker)).heartbeat_interval_ms == 200
    assert (await change(broker, (HEARTBEAT, SET, "200"))).error_code == ErrorCode.INVALID_CONFIG


async def test_ten_thousand_groups_with_settings_are_listed_and_obeyed() -> None:
    broker = await serving()
    metadata = broker.cluster
    for number in range(10_000):
        metadata._image.apply(ConfigKey(GROUP, f"g{number}", HEARTBEAT), ConfigValue("7000"))
    assert len(await configured(broker)) == 10_000
    assert (await joined(broker, "g9999")).heartbeat_interval_ms == 7000


async def test_a_dry_run_and_a_group_without_a_name_change_nothing() -> None:
    broker = await DataBroker.started()
    assert (await change(broker, (SESSION, SET, "50000"), dry=True)).error_code == ErrorCode.NONE
    assert (await change(broker, (SESSION, SET, "50000"), group="")).error_code == ErrorCode.INVALID_REQUEST
    assert (await change(broker)).error_code == ErrorCode.NONE
    assert await configured(broker) == []


async def test_settings_without_effect_are_kept_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    broker = await DataBroker.started()
    changes = (
        ("share.auto.offset.reset", SET, "by_duration:PT1H"),
        ("streams.assignor.name", SET, "sticky"),
    )
    assert (await change(broker, *changes)).error_code == ErrorCode.NONE
    assert (await described(broker))["streams.assignor.name"].value == "sticky"
    assert [record.message for record in caplog.records if "no effect" in record.message] == [
        "group 'g': streams.assignor.name is kept, and has no effect"
    ]


async def test_members_are_told_the_interval_of_their_group_at_the_next_heartbeat() -> None:
    broker = await serving()
    assert (await joined(broker)).heartbeat_interval_ms == 5000
    await change(broker, (HEARTBEAT, SET, "7000"))
    assert (await joined(broker)).heartbeat_interval_ms == 7000
    assert (await joined(broker, "other")).heartbeat_interval_ms == 5000
    await change(broker, (HEARTBEAT, DELETE, None))
    assert (await joined(broker)).heartbeat_interval_ms == 5000


@pytest.mark.parametrize("of_all", [True, False], ids=["of all brokers", "of this one"])
async def test_the_time_between_two_targets_changes_while_the_broker_runs(of_all: bool) -> None:
    interval = "consumer.assignment.interval.ms"
    broker = await serving(group_consumer_assignment_interval_ms=15_000, given={f"group.{interval}": "15000"})
    await broker.create_topic(partitions=2)
    await change(broker, (interval, SET, "14000"), group="own")
    cluster = broker.cluster
    for group in ("g", "own"):
        assert (await joined(broker, group)).member_epoch == 2
        assert (await joined(broker, group, "n")).member_epoch == 2, "the next target has time"
    outcome = await cluster.alter_broker_configs(
        None if of_all else cluster.node_id, [ConfigChange(f"group.{interval}", "100")]
    )
    assert outcome.error is ErrorCode.NONE
    assert (await described(broker))[interval].value == "100"
    broker.clock.advance(100)
    assert (await joined(broker, member="n")).member_epoch == 3
    assert (await joined(broker, "own", "n")).member_epoch == 2, "it has a time of its own"
    await cluster.alter_broker_configs(
        None if of_all else cluster.node_id, [ConfigChange(f"group.{interval}", None, ConfigOperation.DELETE)]
    )
    assert (await described(broker))[interval].value == "15000"


async def test_a_member_is_waited_for_as_its_group_says_from_its_next_heartbeat_on() -> None:
    broker = await serving()
    await joined(broker)
    await change(broker, (SESSION, SET, "60000"))
    broker.clock.advance(30_000)
    await joined(broker)
    broker.clock.advance(59_999)
    group = broker.groups.describe_consumer("g")
    assert not isinstance(group, ErrorCode)
    assert group.members
    broker.clock.advance(1)
    group = broker.groups.describe_consumer("g")
    assert not isinstance(group, ErrorCode)
    assert not group.members


async def test_changes_of_one_group_at_the_same_time_take_turns_and_lose_nothing() -> None:
    broker = await DataBroker.started()
    changed = await asyncio.gather(
        change(broker, (SESSION, SET, "50000")),
        change(broker, (HEARTBEAT, SET, "7000")),
        change(broker, (HEARTBEAT, SET, "8000"), group="h"),
    )
    assert [each.error_code for each in changed] == [ErrorCode.NONE] * 3
    assert broker.cluster.group_configs("g") == {SESSION: "50000", HEARTBEAT: "7000"}
    assert broker.cluster.group_configs("h") == {HEARTBEAT: "8000"}


async def test_settings_outlive_a_restart() -> None:
    broker = await serving()
    await change(broker, (SESSION, SET, "50000"), (HEARTBEAT, SET, "7000"))
    await change(broker, (SESSION, DELETE, None))
    await broker.stop()
    broker = await DataBroker.started(disk=broker.disk)
    assert broker.cluster.group_configs("g") == {HEARTBEAT: "7000"}
    assert (await joined(broker)).heartbeat_interval_ms == 7000


async def test_a_value_out_of_a_range_that_was_narrowed_counts_as_its_end_and_can_be_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = await serving()
    await change(broker, (HEARTBEAT, SET, "15000"), (SESSION, SET, "50000"))
    await broker.stop()
    broker = await DataBroker.started(disk=broker.disk, group_consumer_max_heartbeat_interval_ms=9000)
    assert (await joined(broker)).heartbeat_interval_ms == 9000
    await joined(broker)
    warned = [record.message for record in caplog.records if "counts as 9000" in record.message]
    assert warned == [f"group 'g': {HEARTBEAT} is 15000, and counts as 9000: 5000 to 9000 are allowed"]
    assert (await change(broker, (SESSION, SET, "55000"))).error_code == ErrorCode.NONE
    assert (await change(broker, (HEARTBEAT, SET, "15001"))).error_code == ErrorCode.INVALID_CONFIG
    assert (await change(broker, (HEARTBEAT, DELETE, None))).error_code == ErrorCode.NONE
