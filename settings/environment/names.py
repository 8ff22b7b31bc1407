"""Names of variables: the setting that each of Kafka's images means by one, and those that are no settings.

Always true: a name is judged by itself, and for Kubernetes by its value; nothing here reads another variable.
"""

import difflib
import re
from collections.abc import Iterable
from typing import Final

from eosin.settings.broker import BROKER_SETTINGS
from eosin.settings.kafka_keys import is_unused
from eosin.settings.security import LISTENER_PREFIX

KAFKA: Final = "KAFKA_"
BITNAMI: Final = "KAFKA_CFG_"

_ALIASES: Final = {
    "broker.id": "node.id",
    "log.dir": "log.dirs",
    "logs.dirs": "log.dirs",
    "data.dirs": "log.dirs",
    "segment.bytes": "log.segment.bytes",
    "max.message.bytes": "message.max.bytes",
    "log.retention.check.intervals.ms": "log.retention.check.interval.ms",
    "cluster.id": "eosin.cluster.id",
    "kraft.cluster.id": "eosin.cluster.id",
}
"""Other names that images give a setting."""

_OF_OTHERS: Final = re.compile(
    # The JVM, its logs and its metrics; the images themselves.
    r"KAFKA_(VERSION|HOME|DEBUG|LOG|OPTS|HEAP_OPTS|LOG4J.*|JMX_.*|JVM_PERFORMANCE_OPTS|GC_LOG_OPTS|SCALA_VERSION|NAME"
    r"|TOOLS_.*|LOG_DIR_PERMISSIONS|EXTRA_FLAGS|ENABLE_KRAFT|KRAFT_MODE|SKIP_KRAFT_STORAGE_INIT|INITIAL_CONTROLLERS"
    r"|MOUNTED_CONF_DIR|BASE_DIR|VOLUME_DIR|DATA_DIR|CONF_DIR|CONF_FILE|CERTS_DIR|INITSCRIPTS_DIR|DAEMON_(USER|GROUP)"
    r"|CLIENT_LISTENER_NAME|INTER_BROKER_(USER|PASSWORD)|CONTROLLER_(USER|PASSWORD)|CREATE_TOPICS(_SEPARATOR)?"
    r"|START_TIMEOUT|ADVERTISED_(HOST|HOST_NAME|PORT)|HOST_NAME|HOSTNAME|HOST|PORT"
    # ZooKeeper, the quorum of controllers, the links to other brokers.
    r"|(CFG_)?(ZOOKEEPER|CUB_ZK|CONTROLLER|METADATA)_.*|(CFG_)?SASL_MECHANISM_CONTROLLER_PROTOCOL"
    # Docker's links and other programs of the same stack.
    r"|ENV_.*|REST_.*|CONNECT_.*|SCHEMA_REGISTRY_.*|CLUSTERS_.*"
    # Of Confluent and of KRaft alone.
    r"|(CFG_)?(CONFLUENT|UNSTABLE|SHARE|GROUP_COORDINATOR|REMOTE_LOG)_.*|(CFG_)?METRIC_REPORTERS"
    # Bitnami writes these into files of clients.
    r"|CFG_MAX_REQUEST_SIZE|CFG_MAX_PARTITION_FETCH_BYTES"
    # Bitnami's users and stores, which `credentials` reads.
    r"|CLIENT_(USERS|PASSWORDS)(_FILE)?|BROKER_(USER|PASSWORD)|CERTIFICATE_PASSWORD(_FILE)?|TLS_.*"
    r"|SSL_(KEYSTORE|TRUSTSTORE)_FILENAME|SSL_(KEYSTORE|KEY|TRUSTSTORE)_CREDENTIALS"
    r")"
)
_KUBERNETES: Final = re.compile(
    r"KAFKA_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_PORT: Final = re.compile(r"(tcp|udp|sctp)://.*")
_CODE: Final = re.compile(
    r"KAFKA_(BROKER_ID|NODE_ID|RACK|PORT|HOSTNAME)_COMMAND|(BROKER_ID|NODE_ID|RACK|PORT|HOSTNAME)_COMMAND"
    r"|KAFKA_CUSTOM_INIT_SCRIPT|CUSTOM_INIT_SCRIPT"
)


def is_code(variable: str) -> bool:
    """True if images run the value of a variable as a shell command."""
    return _CODE.fullmatch(variable) is not None


def is_of_others(variable: str, value: str) -> bool:
    """True if a variable is no setting of a broker that runs alone, and nobody misses it."""
    if _KUBERNETES.fullmatch(variable) or (variable.endswith("_PORT") and _PORT.fullmatch(value)):
        return True
    return _OF_OTHERS.fullmatch(variable) is not None and _known(variable) is None


def setting_of(variable: str) -> str | None:
    """The setting that a variable is, by the newest of its names; None if there is none such. A key of one listener is
    in lower case, with its underscores (`listener.name.PLAINTEXT_HOST...`) not settled yet."""
    return _known(variable)


def settled(key: str, listeners: Iterable[str]) -> str:
    """A key of one listener with the name of the listener that it means: images write `sasl.ssl` for SASL_SSL."""
    rest = key.removeprefix(LISTENER_PREFIX)
    for name in sorted((each.lower() for each in listeners), key=len, reverse=True):
        for spelling in (name, name.replace("_", ".")):
            if rest.startswith(f"{spelling}."):
                own = re.sub(r"^\.scram[.-]sha[.-](256|512)\.", r".scram-sha-\1.", rest[len(spelling) :])
                return f"{LISTENER_PREFIX}{name}{own}"
    return key


def rank_of(variable: str, setting: str) -> tuple[int, int, int]:
    """The order of variables that give the same setting, of which the lowest counts: Bitnami's prefix, then the
    setting's own name."""
    rest = _rest(variable)
    return (not variable.startswith(BITNAMI), _first_reading(rest) != setting, len(rest))


def nearest(variable: str) -> str | None:
    """The variable that was meant by one that is no setting, if one is near."""
    found = difflib.get_close_matches(_first_reading(_rest(variable)), BROKER_SETTINGS, n=1, cutoff=0.8)
    prefix = BITNAMI if variable.startswith(BITNAMI) else KAFKA
    return prefix + found[0].upper().replace(".", "_") if found else None


def _known(variable: str) -> str | None:
    if not variable.startswith(KAFKA):
        return None
    for reading in _readings(_rest(variable)):
        key = _ALIASES.get(reading, reading)
        if key in BROKER_SETTINGS or key.startswith(LISTENER_PREFIX) or is_unused(key):
            return key
    return None


def _readings(rest: str) -> Iterable[str]:
    """The names that images make of what follows the prefix: Apache's rule, then the one of Bitnami and others."""
    yield _first_reading(rest)
    yield rest.lower().replace("_", ".")


def _first_reading(rest: str) -> str:
    """One underscore is a dot, two are an underscore, three are a dash."""
    return rest.lower().replace("_", ".").replace("...", "-").replace("..", "_")


def _rest(variable: str) -> str:
    return variable.removeprefix(BITNAMI) if variable.startswith(BITNAMI) else variable.removeprefix(KAFKA)
