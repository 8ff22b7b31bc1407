"""Decisions about rights by looking at every entry, one rule of security.md 4.3 after the other: slow, and easy to
believe. The authorizer must always say the same."""

from collections.abc import Iterable, Sequence

from eosin.model.acls import Acl, PatternType, Permission
from eosin.model.resources import Operation, ResourceType

_IMPLY_DESCRIBE = (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)


def is_about(acl: Acl, kind: ResourceType, name: str) -> bool:
    """Rule 2, its first sentence."""
    if acl.resource_type != kind:
        return False
    if acl.pattern_type == PatternType.LITERAL:
        return acl.resource_name == name or acl.resource_name == "*"  # noqa: SIM109: as the rule says it
    return name.startswith(acl.resource_name)


def names_peer(acl: Acl, principal: str, host: str) -> bool:
    """Rule 2, the rest; hosts in one spelling."""
    return acl.principal in (principal, "User:*") and (acl.host in (host, "*") or is_in(acl.host, host))


def is_in(network: str, host: str) -> bool:
    """Rule 6, for IPv4: True if `network` is a prefix of an address, and `host` has it."""
    if "/" not in network:
        return False
    address, _, length = network.partition("/")
    own, others = ("".join(f"{int(part):08b}" for part in each.split(".")) for each in (address, host))
    return own[: int(length)] == others[: int(length)]


def names_operation(acl: Acl, operation: Operation) -> bool:
    """Rule 4."""
    if acl.operation in (Operation.ALL, operation):
        return True
    if acl.permission == Permission.DENY:
        return False
    if operation == Operation.DESCRIBE:
        return acl.operation in _IMPLY_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and acl.operation == Operation.ALTER_CONFIGS


def may(
    acls: Sequence[Acl],
    operation: Operation,
    kind: ResourceType,
    name: str,
    *,
    principal: str,
    host: str,
    super_users: Iterable[str],
    allow_everyone: bool,
) -> bool:
    """Rule 3."""
    if principal in super_users:
        return True
    about = [acl for acl in acls if is_about(acl, kind, name)]
    matching = [acl for acl in about if names_peer(acl, principal, host) and names_operation(acl, operation)]
    if any(acl.permission == Permission.DENY for acl in matching):
        return False
    if matching:
        return True
    return not about and allow_everyone


def may_any(
    acls: Sequence[Acl],
    operation: Operation,
    kind: ResourceType,
    *,
    principal: str,
    host: str,
    super_users: Iterable[str],
    allow_everyone: bool,
) -> bool:
    """Rule 5."""
    rest = {"principal": principal, "host": host, "super_users": super_users, "allow_everyone": allow_everyone}
    if may(acls, operation, kind, "hardcode", **rest):  # type: ignore[arg-type]
        return True
    named = [
        acl
        for acl in acls
        if acl.resource_type == kind
        and names_peer(acl, principal, host)
        and acl.operation in (operation, Operation.ALL)
    ]
    allowed = [acl for acl in named if acl.permission == Permission.ALLOW]
    denied = {(acl.pattern_type, acl.resource_name) for acl in named if acl.permission == Permission.DENY}
    if (PatternType.LITERAL, "*") in denied:
        return False
    return any(
        (acl.pattern_type == PatternType.LITERAL and acl.resource_name == "*")
        or not (
            (acl.pattern_type == PatternType.LITERAL and (PatternType.LITERAL, acl.resource_name) in denied)
            or any(acl.resource_name.startswith(name) for kind, name in denied if kind == PatternType.PREFIXED)
        )
        for acl in allowed
    )
