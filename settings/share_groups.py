"""`ShareGroupSettings`: the settings of share groups (KIP-932, share-groups.md 10)."""

from dataclasses import dataclass
from typing import Final

from eosin.coordinator.groups.rules.config import SIMPLE
from eosin.settings.sasl import SaslSettings
from eosin.settings.settings import SettingKind, setting

_INT: Final = SettingKind.INT


# `BrokerConfig` gets these methods with all fields; another set of them would only cost each start time.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareGroupSettings(SaslSettings):
    """The settings, typed. `BrokerConfig` inherits them."""

    group_share_session_timeout_ms: int = setting(
        45_000, "A member of a share group (KIP-932) that sends nothing for so long is out.", kind=_INT, at_least=1
    )
    group_share_min_session_timeout_ms: int = setting(
        45_000, "The shortest share.session.timeout.ms that a group may be given.", kind=_INT, at_least=1
    )
    group_share_max_session_timeout_ms: int = setting(
        60_000, "The longest share.session.timeout.ms that a group may be given.", kind=_INT, at_least=1
    )
    group_share_heartbeat_interval_ms: int = setting(
        5000, "How often members of share groups send a heartbeat.", kind=_INT, at_least=1
    )
    group_share_min_heartbeat_interval_ms: int = setting(
        5000, "The shortest share.heartbeat.interval.ms that a group may be given.", kind=_INT, at_least=1
    )
    group_share_max_heartbeat_interval_ms: int = setting(
        15_000, "The longest share.heartbeat.interval.ms that a group may be given.", kind=_INT, at_least=1
    )
    group_share_assignment_interval_ms: int = setting(
        1000, "A share group gets another target after so long at the earliest.", kind=_INT, at_least=0
    )
    group_share_min_assignment_interval_ms: int = setting(
        0, "The shortest share.assignment.interval.ms that a group may be given.", kind=_INT, at_least=0
    )
    group_share_max_assignment_interval_ms: int = setting(
        15_000, "The longest share.assignment.interval.ms that a group may be given.", kind=_INT, at_least=0
    )
    group_share_max_size: int = setting(200, "Members of a share group at most.", kind=_INT, at_least=1, at_most=1000)
    group_share_assignors: tuple[str, ...] = setting(
        (SIMPLE,), "The assignor of share groups; there is one.", kind=SettingKind.LIST, choices=(SIMPLE,)
    )
    group_share_initialize_retry_interval_ms: int = setting(
        30_000,
        "The states of a share group's partitions that could not be initialized are tried again after so long at most.",
        kind=_INT,
        at_least=1,
    )
    group_share_record_lock_duration_ms: int = setting(
        30_000,
        "A record that a share consumer got and did not acknowledge is given to another after so long.",
        kind=_INT,
        at_least=1000,
        at_most=3_600_000,
    )
    group_share_min_record_lock_duration_ms: int = setting(
        15_000,
        "The shortest share.record.lock.duration.ms that a group may be given.",
        kind=_INT,
        at_least=1000,
        at_most=3_600_000,
    )
    group_share_max_record_lock_duration_ms: int = setting(
        60_000,
        "The longest share.record.lock.duration.ms that a group may be given.",
        kind=_INT,
        at_least=1000,
        at_most=3_600_000,
    )
    group_share_delivery_count_limit: int = setting(
        5, "A record is given to share consumers so many times at most.", kind=_INT, at_least=2, at_most=10
    )
    group_share_min_delivery_count_limit: int = setting(
        2, "The lowest share.delivery.count.limit that a group may be given.", kind=_INT, at_least=2, at_most=5
    )
    group_share_max_delivery_count_limit: int = setting(
        10, "The highest share.delivery.count.limit that a group may be given.", kind=_INT, at_least=5, at_most=25
    )
    group_share_partition_max_record_locks: int = setting(
        2000,
        "Records of one partition that a share group has on their way at most.",
        kind=_INT,
        at_least=100,
        at_most=10_000,
    )
    group_share_min_partition_max_record_locks: int = setting(
        100,
        "The lowest share.partition.max.record.locks that a group may be given.",
        kind=_INT,
        at_least=100,
        at_most=10_000,
    )
    group_share_max_partition_max_record_locks: int = setting(
        4000,
        "The highest share.partition.max.record.locks that a group may be given.",
        kind=_INT,
        at_least=100,
        at_most=10_000,
    )
