"""A node of Kafka that is broker and controller in one, and the whole of its cluster, as a broker of Eosin that runs
alone.

Always true: what only such a node's controller needs is gone afterwards, its listeners among it; what clients see of
the node stays. A set-up of several such nodes is refused, because Eosin has no controller.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from eosin.settings.listeners import Listener, parse_listeners
from eosin.settings.quorum import QUORUM_SETTINGS
from eosin.settings.settings import SettingError

ROLES: Final = "process.roles"
VOTERS: Final = "controller.quorum.voters"
SERVERS: Final = "controller.quorum.bootstrap.servers"
NAMES: Final = "controller.listener.names"
LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
CONTROLLER: Final = "CONTROLLER"
EVERYWHERE: Final = "PLAINTEXT://0.0.0.0:9092"
"""The listener of the image if nothing says more."""
_KEPT: Final = "eosin.cluster.id"


def is_one_node(given: dict[str, str], *, in_image: bool) -> bool:
    """True if the settings are those of a node that is alone: with the role of a controller, or in the image with no
    role at all. Raises SettingError for what only Kafka can be."""
    roles = {role.lower() for role in _items(given.get(ROLES, ""))}
    if roles == {"controller"}:
        raise SettingError(
            "process.roles=controller: Eosin has no controller; use Apache Kafka for this node (docs/cluster.md)"
        )
    if not roles:
        return in_image
    if roles != {"broker", "controller"}:
        return False
    voters = [each.partition("@")[0] for each in _items(given.get(VOTERS, ""))]
    if len(voters) > 1 or len(_items(given.get(SERVERS, ""))) > 1:
        raise SettingError(
            f"{ROLES}=broker,controller with several controllers: Eosin is a broker only; run one node alone, or let"
            " brokers with process.roles=broker join controllers of Apache Kafka (docs/cluster.md)"
        )
    if voters and "node.id" in given and voters[0] != given["node.id"].strip():
        raise SettingError(
            f"{VOTERS} must have this node, {given['node.id'].strip()}, as its only controller, not {voters[0]!r}"
        )
    return True


def reduce_to_broker(given: dict[str, str], *, host: str, in_image: bool) -> Sequence[str]:
    """Take out of `given`, the settings of one node, what is for its controller, and name each listener as Kafka does:
    by `host` where neither a setting nor the listener says more. Returns warnings. Raises SettingError."""
    controllers = {name.upper() for name in _items(given.get(NAMES, ""))} or {CONTROLLER}
    for key in [key for key in given if key in QUORUM_SETTINGS and key != _KEPT]:
        del given[key]
    advertised = _without(controllers, given.get(ADVERTISED, ""), key=ADVERTISED)
    if LISTENERS in given:
        listeners = _without(controllers, given[LISTENERS], key=LISTENERS)
        if not listeners:
            raise SettingError(f"{LISTENERS} must name a listener of clients, not only those of a controller")
    elif advertised:
        listeners = [Listener(each.name, "0.0.0.0", each.port) for each in advertised] if in_image else []
    else:
        listeners = list(parse_listeners([EVERYWHERE], key=LISTENERS)) if in_image else []
    told = {each.name for each in advertised}
    advertised = [Listener(each.name, each.host or host, each.port) for each in advertised]
    advertised += [
        Listener(each.name, host, each.port) for each in listeners if each.is_wildcard and each.name not in told
    ]
    if listeners:
        given[LISTENERS] = ",".join(map(str, listeners))
    if advertised:
        given[ADVERTISED] = ",".join(map(str, advertised))
    else:
        given.pop(ADVERTISED, None)
    return _one_directory(given)


def _one_directory(given: dict[str, str]) -> Sequence[str]:
    directories = _items(given.get("log.dirs", ""))
    if len(directories) < 2:
        return ()
    given["log.dirs"] = directories[0]
    return (
        f"log.dirs names {len(directories)} directories, and Eosin keeps its data in one: {directories[0]} is used, and"
        f" {', '.join(directories[1:])} is not",
    )


def _without(controllers: Iterable[str], text: str, *, key: str) -> list[Listener]:
    return [each for each in parse_listeners(_items(text), key=key) if each.name not in controllers]


def _items(text: str) -> list[str]:
    return [item for item in (part.strip().strip("\"'") for part in text.split(",")) if item]
