"""`BudgetSettings`: what a request may cost before it is known to be worth it (security.md 6.2)."""

from dataclasses import dataclass

from eosin.settings.quorum import QuorumSettings
from eosin.settings.settings import SettingKind, setting


# `BrokerConfig` gets these methods with all fields; another set of them would only cost each start time.
@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class BudgetSettings(QuorumSettings):
    """The settings, typed. `BrokerConfig` inherits them."""

    eosin_control_request_max_bytes: int = setting(
        16_777_216, "The largest request of another API than Produce.", kind=SettingKind.INT, at_least=131_072
    )
    eosin_frame_timeout_ms: int = setting(
        30_000,
        "Close a connection whose client has begun a request and for this long sends neither 64 KiB of it nor its end;"
        " -1 never.",
        kind=SettingKind.INT,
        at_least=-1,
    )
    queued_max_request_bytes: int = setting(
        -1,
        "Memory of requests over 64 KiB, as their bytes come and until their response, over all connections; beyond it"
        " they wait unread. One user or address holds half of it at most, and while others wait, whoever sends slowest"
        " is closed. Room for one request of the largest size is kept, half at most. -1: a quarter of the memory that"
        " this process may use. (Kafka: no limit)",
        kind=SettingKind.LONG,
        at_least=-1,
    )
    eosin_connection_in_flight_max_bytes: int = setting(
        134_217_728, "The same of one connection.", kind=SettingKind.LONG, at_least=1_048_576
    )
    eosin_unauthenticated_memory_max_bytes: int = setting(
        67_108_864,
        "Memory of what the connections of a listener whose TLS and SASL are not done have sent and not ended; one"
        " address holds half of it at most.",
        kind=SettingKind.LONG,
        at_least=1_048_576,
    )
    eosin_transactional_ids_max: int = setting(
        1_000_000, "Transactional ids of this broker's partitions at most.", kind=SettingKind.INT, at_least=1
    )
    eosin_principal_transactional_ids_rate: int = setting(
        100,
        "New transactional ids of one user who has proved who he is in a second, 100 seconds' worth at once; 0: no"
        " limit.",
        kind=SettingKind.INT,
        at_least=0,
        at_most=1_000_000,
    )
    eosin_producer_ids_max: int = setting(
        2_000_000,
        "Producers that partitions know at most, each counted for each of its partitions; further ones are refused.",
        kind=SettingKind.INT,
        at_least=1,
    )
    eosin_principal_producer_ids_rate: int = setting(
        200,
        "New producer ids of such a user in a second, 100 seconds' worth at once; beyond it his connection pauses; 0:"
        " no limit.",
        kind=SettingKind.INT,
        at_least=0,
        at_most=1_000_000,
    )
