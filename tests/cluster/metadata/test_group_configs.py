"""The settings of groups follow what changes at run time: a group's own, and the interval of all of them."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from eosin.cluster.metadata.group_configs import consumer_configs, share_configs, streams_configs
from eosin.settings.broker import BrokerConfig

KINDS: dict[str, Callable[..., Any]] = {
    "consumer": consumer_configs, "share": share_configs, "streams": streams_configs,
}  # fmt: skip


class Owners:
    """Groups with settings of their own."""

    def __init__(self) -> None:
        self.own: dict[str, Mapping[str, str]] = {}

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        return self.own.get(group_id, {})


@pytest.mark.parametrize("kind", KINDS)
def test_an_interval_that_changes_for_all_groups_is_that_of_each_without_one_of_its_own(kind: str) -> None:
    owners, interval_ms = Owners(), [1000]
    configs = KINDS[kind](owners, BrokerConfig(), lambda: interval_ms[0])
    owners.own = {
        "own": {f"{kind}.assignment.interval.ms": "3000"},
        "other": {f"{kind}.heartbeat.interval.ms": "6000"},
    }

    def told() -> list[int]:
        return [configs.of(name).assignment_interval_ms for name in ("own", "other", "none")]

    assert told() == [3000, 1000, 1000]
    interval_ms[0] = 1500
    assert told() == [3000, 1500, 1500]
    assert configs.of("other").heartbeat_interval_ms == 6000
