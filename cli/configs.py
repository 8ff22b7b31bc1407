"""`eosin configs describe | alter`: the settings of topics, brokers, loggers and groups of any Kafka cluster."""

from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import Final

from eosin.cli.common.arguments import Parser, completed_by, fail, setting
from eosin.cli.common.remote_commands import NotThere, Row, add_common, no_such, print_rows
from eosin.cli.topics import existing
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.protocol.config_resources import ConfigResourceType
from eosin.protocol.schemas.describe_configs import DescribeConfigsResourceResult

_COMMAND: Final = "configs"
_COLUMNS: Final = {"name": "NAME", "value": "VALUE", "source": "SOURCE"}
_CHANGED: Final = {"name": "NAME", "before": "BEFORE", "after": "AFTER"}
_DEFAULT: Final = 5
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "start of the broker",
    _DEFAULT: "default",
    6: "broker",
    7: "client metrics",
    8: "group",
}


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    command = f"{_COMMAND} {options.action}"
    if options.action == "alter":
        if not (options.set or options.delete):
            return fail(command, "give --set or --delete")
        return print_rows(command, lambda client: _alter(client, options), options, _CHANGED)
    return print_rows(command, lambda client: _describe(client, options), options, _COLUMNS)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin configs",
        description="Show and change the settings of topics, brokers and groups.",
        examples=[
            "eosin configs describe --topic orders",
            "eosin configs alter --topic orders --set retention.ms=86400000",
        ],
    )
    actions = options.add_subparsers(dest="action", required=True, metavar="describe|alter")
    describing = actions.add_parser(
        "describe",
        help="settings and where they come from",
        description="Show the settings that are not the default.",
        examples=[
            "eosin configs describe --topic orders",
            "eosin configs describe --topic orders --all",
            "eosin configs describe --broker 1 --json",
        ],
    )
    describing.add_argument("--all", action="store_true", help="defaults, too")
    describing.add_argument("--name", action="append", metavar="NAME", help="only this setting; may be repeated")
    altering = actions.add_parser(
        "alter",
        help="change settings",
        description="Change settings of a topic, a broker or a group, all of them or none.",
        examples=[
            "eosin configs alter --topic orders --set retention.ms=86400000 --set segment.ms=3600000",
            "eosin configs alter --topic orders --delete retention.ms",
            "eosin configs alter --broker-logger 1 --set root=DEBUG",
        ],
    )
    altering.add_argument(
        "--set", action="append", type=setting, default=[], metavar="NAME=VALUE", help="may be repeated"
    )
    altering.add_argument(
        "--delete", action="append", default=[], metavar="NAME", help="put back to the default; may be repeated"
    )
    altering.add_argument("--dry-run", action="store_true", help="ask whether it could be done, and do nothing")
    for action in (describing, altering):
        whose = action.add_mutually_exclusive_group(required=True)
        completed_by("topic", whose.add_argument("--topic", metavar="TOPIC", help="the settings of a topic"))
        whose.add_argument("--broker", type=_node_id, metavar="N", help="of the broker with this node id")
        whose.add_argument("--broker-defaults", action="store_true", help="that all brokers share")
        whose.add_argument("--broker-logger", type=_node_id, metavar="N", help="the log levels of a broker")
        completed_by("group", whose.add_argument("--group", metavar="ID", help="of a group"))
        add_common(action)
    return options


def _node_id(text: str) -> str:
    if not (text.isascii() and text.isdigit() and int(text) < 2**31):
        raise ArgumentTypeError(f"must be a node id, not {text!r}")
    return str(int(text))


def _resource(options: Namespace) -> tuple[ConfigResourceType, str]:
    if options.topic is not None:
        return ConfigResourceType.TOPIC, options.topic
    if options.group is not None:
        return ConfigResourceType.GROUP, options.group
    if options.broker_logger is not None:
        return ConfigResourceType.BROKER_LOGGER, options.broker_logger
    return ConfigResourceType.BROKER, options.broker or ""


async def _describe(client: Client, options: Namespace) -> Sequence[Row]:
    found = await _settings(client, options)
    for name in options.name or ():
        if name not in found:
            raise NotThere(f"there is no setting {name!r}")
    return [
        _row(each) for _, each in sorted(found.items()) if options.name or options.all or each.config_source != _DEFAULT
    ]


async def _alter(client: Client, options: Namespace) -> Sequence[Row]:
    kind, name = _resource(options)
    before = await _settings(client, options)
    changes: dict[str, str | None] = {**dict(options.set), **dict.fromkeys(options.delete)}
    await Admin(client).alter_configs(name, changes, kind=kind, validate_only=options.dry_run)
    return [
        {"name": each, "before": _value(before[each]) if each in before else None, "after": value}
        for each, value in sorted(changes.items())
    ]


async def _settings(client: Client, options: Namespace) -> dict[str, DescribeConfigsResourceResult]:
    kind, name = _resource(options)
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and name:
        brokers = (await client.fetch_metadata([])).brokers
        if int(name) not in brokers:
            raise NotThere(f"there is no broker {name}")
    if kind is ConfigResourceType.TOPIC and not await existing(client, [name]):
        raise no_such("topic", name)
    return await Admin(client).describe_configs(name, kind=kind, keys=options.name if "name" in options else None)


def _row(found: DescribeConfigsResourceResult) -> Row:
    return {
        "name": found.name,
        "value": _value(found),
        "source": _SOURCES.get(found.config_source, "unknown"),
        "read_only": found.read_only,
        "sensitive": found.is_sensitive,
    }


def _value(found: DescribeConfigsResourceResult) -> str | None:
    return "(hidden)" if found.is_sensitive else found.value
