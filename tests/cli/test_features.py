"""`eosin features`: the levels that a cluster has agreed on, shown and changed."""

import asyncio
import re
from collections.abc import Mapping

import pytest
from shell import Shell
from wire import Wire

from eosin.cli.common.remote_commands import NotThere
from eosin.cli.features import _meaning, _refusal, _wanted
from eosin.client.errors import BrokerError
from eosin.client.features import Feature
from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

GROUPS, METADATA = "group.version", "metadata.version"


def feature(level: int, *supported: tuple[int, int], name: str = GROUPS) -> Feature:
    return Feature(name, level, dict(enumerate(supported, 1)))


def test_a_level_counts_as_supported_if_every_broker_works_with_it() -> None:
    same = feature(1, (0, 1), (0, 1))
    assert same.supported == (0, 1)
    assert _meaning(same) == "1: consumer groups by group.protocol=consumer (KIP-848)"
    mixed = feature(0, (0, 1), (0, 0), (0, 1))
    assert mixed.supported == (0, 0)
    assert str(_meaning(mixed)).endswith("up to 1, but for broker 2")


@pytest.mark.parametrize(
    ("level", "action", "said"),
    [
        (-1, "upgrade", 1),
        (1, "upgrade", 1),
        (2, "upgrade", "group.version cannot be at 2: the brokers work with 0 to 1"),
        (1, "downgrade", "group.version is at 0: eosin features upgrade group.version=1 raises it"),
    ],
)
def test_the_wanted_level_is_one_that_the_brokers_work_with(level: int, action: str, said: int | str) -> None:
    there = {GROUPS: feature(0, (0, 1))}
    if isinstance(said, int):
        assert _wanted(GROUPS, level, there, action) == said
        return
    with pytest.raises(NotThere) as refused:
        _wanted(GROUPS, level, there, action)
    assert str(refused.value) == said


def test_a_level_above_what_a_new_broker_supports_can_be_kept_and_lowered_only() -> None:
    there: Mapping[str, Feature] = {METADATA: feature(33, (25, 33), (25, 31), name=METADATA)}
    assert _wanted(METADATA, -1, there, "upgrade") == 33
    assert _wanted(METADATA, 31, there, "downgrade") == 31
    with pytest.raises(NotThere, match=r"is at 33: eosin features downgrade metadata\.version=31 lowers it"):
        _wanted(METADATA, 31, there, "upgrade")


def test_the_reason_of_the_cluster_is_one_sentence() -> None:
    there = {GROUPS: feature(1, (0, 1))}
    reason = "Invalid update version 0 for feature group.version. Consumer groups have members."
    for message in (reason, f"The update failed for all features since the following feature had an error: {reason}"):
        refused = _refusal(BrokerError(ErrorCode.INVALID_UPDATE_VERSION, "changing", message), there)
        assert str(refused) == "group.version stays at 1: consumer groups have members"
    other = BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "changing", None)
    assert _refusal(other, there) is other


async def join(address: str, *groups: str) -> None:
    wire = await Wire.open(address)
    for group in groups:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        )
        assert (await wire.ask(request, 1)).error_code == ErrorCode.NONE
    await wire.close()


@pytest.mark.process
def test_a_feature_is_described_raised_and_lowered(own: Shell) -> None:
    rows = {row["feature"]: row for row in own.ok("features", "describe", "--json").rows}
    assert (rows[GROUPS]["supported"], rows[GROUPS]["brokers"]) == ("0 to 1", {"1": "0 to 1"})
    assert rows["transaction.version"]["level"] == 2
    if rows[GROUPS]["level"]:
        own.ok("features", "downgrade", f"{GROUPS}=0")
    dry = own.ok("features", "upgrade", GROUPS, "--dry-run").lines
    assert dry[1].split() == [GROUPS, "0", "1"]
    before = own.ok("features", "upgrade", f"{GROUPS}=1", "transaction.version=2", "--json").rows
    assert before == [
        {"feature": GROUPS, "before": 0, "after": 1},
        {"feature": "transaction.version", "before": 2, "after": 2},
    ]
    assert own.ok("features", "upgrade", GROUPS, "--json").rows == [{"feature": GROUPS, "before": 1, "after": 1}]
    heading, *lines = own.ok("features", "describe").lines
    assert heading.split() == ["FEATURE", "LEVEL", "SUPPORTED", "MEANING"]
    assert lines[0].split()[:5] == [GROUPS, "1", "0", "to", "1"]
    code, said = own.refused("features", "upgrade", "group.versoin=1")
    assert code == 1
    assert said.endswith("no broker knows a feature 'group.versoin'; did you mean group.version?")
    code, said = own.refused("features", "downgrade", "transaction.version=1")
    assert code == 1
    assert "transaction.version stays at 2: set eosin.transaction.version=1 and restart the broker" in said
    asyncio.run(join(own.address, "d", "b", "c", "a"))
    for how in ((), ("--dry-run",)):
        code, said = own.refused("features", "downgrade", f"{GROUPS}=0", *how)
        assert code == 1
        told = re.search(r"group\.version stays at 1: consumer groups have members, as (\w), (\w), (\w):", said)
        assert told is not None, said
        assert {*told.groups()} < {"a", "b", "c", "d"}
    assert own.refused("features", "downgrade", GROUPS)[0] == 2
