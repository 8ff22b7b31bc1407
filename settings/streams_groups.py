"""`StreamsGroupSettings`: the settings of streams groups (KIP-1071, streams-groups.md 10)."""

from dataclasses import dataclass
from typing import Final

from eosin.settings.settings import SettingKind, setting
from eosin.settings.share_groups import ShareGroupSettings

_INT: Final = SettingKind.INT


# `BrokerConfig` gets these methods with all fields; another set of them would only cost each start time.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class StreamsGroupSettings(ShareGroupSettings):
    """The settings, typed. `BrokerConfig` inherits them."""

    group_streams_session_timeout_ms: int = setting(
        45_000, "A member of a streams group (KIP-1071) that sends nothing for so long is out.", kind=_INT, at_least=1
    )
    group_streams_min_session_timeout_ms: int = setting(
        45_000, "The shortest streams.session.timeout.ms that a group may be given.", kind=_INT, at_least=1
    )
    group_streams_max_session_timeout_ms: int = setting(
        60_000, "The longest streams.session.timeout.ms that a group may be given.", kind=_INT, at_least=1
    )
    group_streams_heartbeat_interval_ms: int = setting(
        5000, "How often members of streams groups send a heartbeat.", kind=_INT, at_least=1
    )
    group_streams_min_heartbeat_interval_ms: int = setting(
        5000, "The shortest streams.heartbeat.interval.ms that a group may be given.", kind=_INT, at_least=1
    )
    group_streams_max_heartbeat_interval_ms: int = setting(
        15_000, "The longest streams.heartbeat.interval.ms that a group may be given.", kind=_INT, at_least=1
    )
    group_streams_assignment_interval_ms: int = setting(
        1000, "A streams group gets another target after so long at the earliest.", kind=_INT, at_least=0
    )
    group_streams_min_assignment_interval_ms: int = setting(
        0, "The shortest streams.assignment.interval.ms that a group may be given.", kind=_INT, at_least=0
    )
    group_streams_max_assignment_interval_ms: int = setting(
        15_000, "The longest streams.assignment.interval.ms that a group may be given.", kind=_INT, at_least=0
    )
    group_streams_max_size: int = setting(2_147_483_647, "Members of a streams group at most.", kind=_INT, at_least=1)
    group_streams_num_standby_replicas: int = setting(
        0, "Copies that members of a streams group keep of each task's state.", kind=_INT, at_least=0
    )
    group_streams_max_standby_replicas: int = setting(
        2, "The highest streams.num.standby.replicas that a group may be given.", kind=_INT, at_least=0
    )
    group_streams_initial_rebalance_delay_ms: int = setting(
        3000,
        "The first members of a streams group wait so long for others before tasks are dealt out.",
        kind=_INT,
        at_least=0,
    )
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = setting(
        (),
        "Client tags that each member of a streams group is to have; one that lacks some is told so, and no assignor"
        " looks at them.",
        kind=SettingKind.LIST,
    )
    eosin_topology_description_max_bytes: int = setting(
        262_144,
        "A description of its topology that a streams group tells for people (KIP-1331) at most; 0: none is asked for.",
        kind=_INT,
        at_least=0,
    )
    eosin_topology_max_tasks: int = setting(10_000, "Tasks of one streams group at most.", kind=_INT, at_least=1)
