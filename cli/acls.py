"""`eosin acls list | add | remove | explain`: who may do what in a cluster (security.md 8.3).

Works with every broker that serves the APIs of access control entries: Apache Kafka does since 0.11.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.remote_commands import NotThere, Row, add_common, print_rows
from eosin.client.acls import AclAdmin
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.model.acls import EVERYBODY, Acl, AclFilter, PatternType, Permission
from eosin.model.resources import CLUSTER_NAME, Operation, ResourceType
from eosin.protocol.config_resources import ConfigResourceType as ConfigsOf
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import INTERNAL_TOPICS
from eosin.protocol.schemas.create_acls import AclCreation
from eosin.protocol.schemas.delete_acls import DeleteAclsFilter
from eosin.protocol.schemas.describe_acls import DescribeAclsRequest
from eosin.security.acl_index import is_about_nobody
from eosin.security.authorizer import StandardAuthorizer

_COLUMNS: Final = {
    "resource_type": "RESOURCE",
    "pattern_type": "PATTERN",
    "name": "NAME",
    "permission": "PERMISSION",
    "operation": "OPERATION",
    "principal": "PRINCIPAL",
    "host": "HOST",
}
_DECISION: Final = {"decision": "DECISION", "rule": "RULE"}
_EXAMPLES: Final = {
    "list": ("eosin acls list", "eosin acls list --principal User:app --json"),
    "add": (
        "eosin acls add --principal User:app --producer --topic orders --transactional-id app-1",
        "eosin acls add --principal User:app --consumer --topic orders --group app",
        "eosin acls add --principal User:ops --allow READ,DESCRIBE --topic orders- --prefixed",
    ),
    "remove": ("eosin acls remove --principal User:app --topic orders",),
    "explain": ("eosin acls explain --principal User:app --operation WRITE --topic orders",),
}
_READING: Final = frozenset((Operation.READ, Operation.ALL))
_OPERATIONS: Final = tuple(each.name for each in Operation if each > Operation.ANY)
_LEGAL: Final = {
    ResourceType.TOPIC: frozenset(
        (
            *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
            *(Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL),
        )
    ),
    ResourceType.GROUP: frozenset(
        (
            *(Operation.READ, Operation.DELETE, Operation.DESCRIBE),
            *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL),
        )
    ),
    ResourceType.CLUSTER: frozenset(
        (
            *(Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE, Operation.ALTER, Operation.ALL),
            *(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
        )
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset(
        (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT, Operation.ALL)
    ),
}
"""The operations that make sense for each type; a broker stores others as well, and they have no effect (security.md
4.5.8)."""

_Resource = tuple[ResourceType, str]


class _WronglyAsked(Exception):
    """The options do not go together, as one sentence."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    command = f"acls {options.action}"
    try:
        if options.action == "explain":
            return _explain(command, options)
        if options.action == "add":
            return _add(command, _entries(options), options)
        if options.action == "remove":
            return _remove(command, _filters(options), options)
        return print_rows(command, lambda client: _listed(client, _filters(options)), options, _COLUMNS)
    except _WronglyAsked as error:
        return fail(command, str(error))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin acls",
        description="Show and change who may do what.",
        examples=[line for lines in _EXAMPLES.values() for line in lines],
    )
    actions = options.add_subparsers(dest="action", required=True, metavar="list|add|remove|explain")
    for action, what in (
        ("list", "show the entries"),
        ("add", "add entries"),
        ("remove", "remove entries"),
        ("explain", "tell whether somebody may do something, and which entry decides"),
    ):
        made = actions.add_parser(
            action, help=what, description=f"{what[0].upper()}{what[1:]}.", examples=_EXAMPLES[action]
        )
        made.add_argument("--principal", action="append", metavar="TYPE:NAME", help="who, as User:app", default=[])
        for option, what in (("--topic", "a topic"), ("--group", "a group"), ("--transactional-id", "a producer's id")):
            made.add_argument(option, action="append", metavar="NAME", help=what, default=[])
        made.add_argument("--cluster", action="store_true", help="the cluster itself")
        made.add_argument("--host", action="append", metavar="ADDRESS", help="from where; else from everywhere")
        if action == "explain":
            made.add_argument("--operation", type=_operation, required=True, metavar="OPERATION", help="what, as READ")
        else:
            made.add_argument("--prefixed", action="store_true", help="names are beginnings of names")
            made.add_argument("--allow", type=_operations, metavar="OPERATIONS", help="what, as READ,WRITE")
            made.add_argument("--deny", type=_operations, metavar="OPERATIONS", help="what is forbidden")
            made.add_argument("--producer", action="store_true", help="what a producer needs of --topic")
            made.add_argument("--consumer", action="store_true", help="what a consumer needs of --topic and --group")
        add_common(made)
    return options


def _operation(text: str) -> Operation:
    name = text.strip().upper().replace("-", "_")
    if name not in _OPERATIONS:
        import argparse

        raise argparse.ArgumentTypeError(f"must be one of {', '.join(_OPERATIONS)}, not {text!r}")
    return Operation[name]


def _operations(text: str) -> tuple[Operation, ...]:
    return tuple(_operation(each) for each in text.split(","))


# What the options mean -----------------------------------------------------------------------------------------------


def _resources(options: Namespace) -> list[_Resource]:
    named = (
        (ResourceType.TOPIC, options.topic),
        (ResourceType.GROUP, options.group),
        (ResourceType.TRANSACTIONAL_ID, options.transactional_id),
        (ResourceType.CLUSTER, [CLUSTER_NAME] if options.cluster else []),
    )
    return [(kind, name) for kind, names in named for name in names]


def _principals(options: Namespace) -> Sequence[str]:
    for principal in options.principal:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            raise _WronglyAsked(f"--principal must be TYPE:NAME, as User:app, not {principal!r}")
    found: Sequence[str] = options.principal
    return found


def _rules(options: Namespace) -> Iterator[tuple[Permission, Operation, _Resource]]:
    """The rules that the options ask for: each operation on each resource, allowed or denied."""
    resources = _resources(options)
    for permission, operations in ((Permission.ALLOW, options.allow), (Permission.DENY, options.deny)):
        for operation, (kind, name) in product(operations or (), resources):
            if operation not in _LEGAL[kind]:
                legal = ", ".join(each.name for each in sorted(_LEGAL[kind]))
                raise _WronglyAsked(f"{operation.name} makes no sense on a {kind.name}: there are {legal}")
            yield permission, operation, (kind, name)
    for operation, resource in _shortcuts(options):
        yield Permission.ALLOW, operation, resource


def _shortcuts(options: Namespace) -> Iterator[tuple[Operation, _Resource]]:
    if (options.producer or options.consumer) and not options.topic:
        raise _WronglyAsked("--producer and --consumer need --topic")
    if options.consumer and not options.group:
        raise _WronglyAsked("--consumer needs --group")
    if options.producer:
        wanted = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
        yield from product(wanted, [(ResourceType.TOPIC, name) for name in options.topic])
        of_ids = [(ResourceType.TRANSACTIONAL_ID, name) for name in options.transactional_id]
        yield from product((Operation.WRITE, Operation.DESCRIBE), of_ids)
    if options.consumer:
        yield from product((Operation.READ, Operation.DESCRIBE), [(ResourceType.TOPIC, name) for name in options.topic])
        yield from product((Operation.READ,), [(ResourceType.GROUP, name) for name in options.group])


def _entries(options: Namespace) -> list[Acl]:
    principals = _principals(options)
    if not principals:
        raise _WronglyAsked("say who: --principal TYPE:NAME")
    rules = list(dict.fromkeys(_rules(options)))
    if not rules:
        raise _WronglyAsked(
            "say what and on what: --allow or --deny OPERATIONS with --topic, --group, --transactional-id or --cluster,"
            " or --producer or --consumer"
        )
    return [
        Acl(kind, name, _pattern(kind, options), principal, host, operation, permission)
        for principal in principals
        for permission, operation, (kind, name) in rules
        for host in options.host or ("*",)
    ]


def _pattern(kind: ResourceType, options: Namespace) -> PatternType:
    return PatternType.PREFIXED if options.prefixed and kind is not ResourceType.CLUSTER else PatternType.LITERAL


def _filters(options: Namespace) -> list[AclFilter]:
    """Of each combination that was named; what was not named matches everything."""
    principals = _principals(options) or (None,)
    if options.allow or options.deny or options.producer or options.consumer:
        rules: list[tuple[int, int, int, str | None]] = [
            (permission, operation, kind, name) for permission, operation, (kind, name) in _rules(options)
        ]
        for permission, operations in ((Permission.ALLOW, options.allow), (Permission.DENY, options.deny)):
            if operations and not _resources(options):
                rules += [(permission, each, ResourceType.ANY, None) for each in operations]
    else:
        anything = Permission.ANY, Operation.ANY
        rules = [(*anything, kind, name) for kind, name in _resources(options)]
        rules = rules or [(*anything, ResourceType.ANY, None)]
    pattern = PatternType.PREFIXED if options.prefixed else PatternType.ANY
    return [
        AclFilter(kind, name, pattern, principal, host, operation, permission)
        for principal in principals
        for permission, operation, kind, name in rules
        for host in options.host or (None,)
    ]


# What is asked -------------------------------------------------------------------------------------------------------


def _add(command: str, entries: Sequence[Acl], options: Namespace) -> int:
    async def question(client: Client) -> Sequence[Row]:
        await AclAdmin(client).create([AclCreation(*acl) for acl in entries])
        return [_row(acl) for acl in entries]

    code = print_rows(command, question, options, _COLUMNS)
    if code == 0:
        for note in _notes(entries):
            fail(command, f"note: {note}", code=0)
    return code


def _notes(entries: Sequence[Acl]) -> Iterator[str]:
    """Notes about effects of the entries that their author may not have meant (security.md 4.3.6, 6.5.4)."""
    allowed = [acl for acl in entries if acl.permission == Permission.ALLOW]
    if any(acl.principal == EVERYBODY for acl in allowed):
        yield "User:* is everybody who reaches the broker, without a password, too"
    reading = [acl for acl in allowed if acl.resource_type == ResourceType.TOPIC and acl.operation in _READING]
    if read := sorted(name for name in INTERNAL_TOPICS if any(acl.covers(name) for acl in reading)):
        names = " and ".join(each for each in (", ".join(read[:-1]), read[-1]) if each)
        yield f"this allows to read {names}, with what all groups and transactions have stored there"
    for host in dict.fromkeys(acl.host for acl in entries if is_about_nobody(acl.host)):
        yield f"host {host} is no address and no network, so the entry is about nobody"


def _remove(command: str, filters: Sequence[AclFilter], options: Namespace) -> int:
    if filters == [AclFilter()]:
        raise _WronglyAsked("say which entries: by --principal, --host, operations or resources")

    async def question(client: Client) -> Sequence[Row]:
        removed = await AclAdmin(client).delete([DeleteAclsFilter(*each) for each in filters])
        if not removed:
            raise NotThere("no entry matches")
        acls = {
            Acl(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in removed
        }
        return [_row(acl) for acl in sorted(acls)]

    return print_rows(command, question, options, _COLUMNS)


async def _listed(client: Client, filters: Sequence[AclFilter]) -> Sequence[Row]:
    admin = AclAdmin(client)
    found = [each for wanted in filters for each in await admin.describe(DescribeAclsRequest(*wanted))]
    return [_row(acl) for acl in sorted({_acl(each) for each in found})]


def _explain(command: str, options: Namespace) -> int:
    principals, resources = _principals(options), _resources(options)
    if len(principals) != 1 or len(resources) != 1 or len(options.host or ()) > 1:
        raise _WronglyAsked("ask about one --principal, one resource and at most one --host")
    (principal,), ((kind, name),) = principals, resources

    async def question(client: Client) -> Sequence[Row]:
        entries = [_acl(each) for each in await AclAdmin(client).describe(DescribeAclsRequest(*AclFilter()))]
        super_users, allow_everyone = await _settings(client)
        authorizer = StandardAuthorizer(super_users=super_users, allow_everyone=allow_everyone)
        authorizer.change(added=entries)
        host = options.host[0] if options.host else ""
        decision = authorizer.decision(options.operation, kind, name, principal=principal, host=host)
        return [{"decision": "allowed" if decision.allowed else "denied", "rule": decision.rule}]

    return print_rows(command, question, options, _DECISION)


async def _settings(client: Client) -> tuple[tuple[str, ...], bool]:
    """The super users, and whether everybody may do everything to what no entry is about. A broker that does not tell
    its settings is taken to have neither."""
    node = next(iter((await client.fetch_metadata([])).brokers), None)
    keys = ("super.users", "allow.everyone.if.no.acl.found")
    try:
        found = await Admin(client).describe_configs(str(node), kind=ConfigsOf.BROKER, keys=keys)
    except BrokerError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return (), False
    users = found["super.users"].value if "super.users" in found else None
    everyone = found["allow.everyone.if.no.acl.found"].value if "allow.everyone.if.no.acl.found" in found else None
    return tuple(each.strip() for each in (users or "").split(";") if each.strip()), everyone == "true"


def _acl(described: AclCreation) -> Acl:
    return Acl(
        described.resource_type,
        described.resource_name,
        described.resource_pattern_type,
        described.principal,
        described.host,
        described.operation,
        described.permission_type,
    )


def _row(acl: Acl) -> dict[str, Any]:
    return {
        "resource_type": _name_of(ResourceType, acl.resource_type),
        "pattern_type": _name_of(PatternType, acl.pattern_type),
        "name": acl.resource_name,
        "permission": _name_of(Permission, acl.permission),
        "operation": _name_of(Operation, acl.operation),
        "principal": acl.principal,
        "host": acl.host,
    }


def _name_of(kind: Any, number: int) -> str:
    return str(kind(number).name) if number in set(kind) else str(number)
