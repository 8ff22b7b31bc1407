"""`eosin topics list | create | describe | alter | delete | delete-records`: the topics of any Kafka cluster.

Always true: a command that is given several topics looks whether all of them are there (or not there yet) before it
changes any.
"""

import asyncio
import functools
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from eosin.cli.common.arguments import Parser, completed_by, count, fail, setting, topic_name, topic_partitions
from eosin.cli.common.remote_commands import NotThere, Row, add_common, no_such, print_lines, shown
from eosin.cli.records.positions import offsets_of, start
from eosin.client.admin import Admin
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.metadata import TopicInfo
from eosin.client.offsets import EARLIEST, LATEST, list_offsets
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import IsolationLevel, TopicPartition, uuid_text
from eosin.protocol.schemas.create_topics import CreatableTopicResult
from eosin.runtime.clock import SystemClock

_COMMAND: Final = "topics"
_NOBODY: Final = -1
_SET_FOR_THE_TOPIC: Final = 1
"""The source of a setting that is the topic's own."""
_HIDDEN: Final = "(hidden)"
_MOST_CHECKS: Final = 40
_BETWEEN_CHECKS_S: Final = 0.05

_LISTED: Final = {"topic": "TOPIC", "partitions": "PARTITIONS", "replication_factor": "REPLICATION FACTOR"}
_CREATED: Final = {**_LISTED, "configs": "CONFIGS"}
_DELETED: Final = {"topic": "TOPIC", "partition": "PARTITION", "before": "LOG START BEFORE", "after": "AFTER"}
_PARTITIONS: Final = {
    "partition": "PARTITION",
    "leader": "LEADER",
    "replicas": "REPLICAS",
    "in_sync": "IN SYNC",
    "log_start_offset": "LOG START",
    "last_stable_offset": "LAST STABLE",
    "high_watermark": "HIGH WATERMARK",
}

Action = Callable[[Client, Namespace], Awaitable[Sequence[str]]]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    command = f"{_COMMAND} {options.action}"
    if options.action == "alter" and not (options.partitions or options.config or options.delete_config):
        return fail(command, "give --partitions, --config or --delete-config")
    asked = _ACTIONS[options.action]
    return print_lines(command, lambda client: asked(client, options), options)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin topics",
        description="Show, make, change and delete topics.",
        examples=["eosin topics create orders --partitions 3", "eosin topics list", "eosin topics describe orders"],
    )
    actions = options.add_subparsers(
        dest="action", required=True, metavar="list|create|describe|alter|delete|delete-records"
    )
    listing = actions.add_parser(
        "list",
        help="all topics",
        description="List the topics of the cluster.",
        examples=["eosin topics list", "eosin topics list --internal --json"],
    )
    listing.add_argument("--internal", action="store_true", help="the brokers' own topics, too")
    _add_creating(
        actions.add_parser(
            "create",
            help="make topics",
            description="Create topics.",
            examples=[
                "eosin topics create orders --partitions 3",
                "eosin topics create prices --config cleanup.policy=compact --if-not-exists",
            ],
        )
    )
    describing = actions.add_parser(
        "describe",
        help="the partitions of topics",
        description="Show the partitions of topics, their replicas and their offsets; of all topics without a name.",
        examples=["eosin topics describe", "eosin topics describe orders invoices --json"],
    )
    completed_by("topic", describing.add_argument("topics", nargs="*", type=topic_name, metavar="TOPIC"))
    _add_altering(
        actions.add_parser(
            "alter",
            help="add partitions, change settings",
            description="Add partitions to a topic, or change its settings.",
            examples=[
                "eosin topics alter orders --partitions 6",
                "eosin topics alter orders --config retention.ms=86400000 --delete-config cleanup.policy",
            ],
        )
    )
    deleting = actions.add_parser(
        "delete",
        help="delete topics and their records",
        description="Delete topics, with all their records. Nobody is asked again.",
        examples=["eosin topics delete orders", "eosin topics delete orders invoices --if-exists"],
    )
    completed_by("topic", deleting.add_argument("topics", nargs="+", type=topic_name, metavar="TOPIC"))
    deleting.add_argument("--if-exists", action="store_true", help="leave out those that are not there")
    _add_record_deletion(
        actions.add_parser(
            "delete-records",
            help="delete the oldest records of topics",
            description="Delete the records of partitions up to a place in each, which open transactions are never"
            " before. Without --execute: show what would be done.",
            examples=[
                "eosin topics delete-records orders --before latest",
                "eosin topics delete-records orders:0,2 --before 7d --execute",
                "eosin topics delete-records orders invoices --before 2026-01-31 --execute",
            ],
        )
    )
    for action in actions.choices.values():
        add_common(action)
    return options


def _add_creating(creating: Parser) -> None:
    creating.add_argument("topics", nargs="+", type=topic_name, metavar="TOPIC")
    creating.add_argument("--partitions", type=count, metavar="N", help="how many (the cluster's default)")
    creating.add_argument(
        "--replication-factor", type=count, metavar="N", help="how many replicas (the cluster's default)"
    )
    creating.add_argument(
        "--config",
        action="append",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the topic; may be repeated",
    )
    creating.add_argument("--if-not-exists", action="store_true", help="leave out those that are there already")
    creating.add_argument("--dry-run", action="store_true", help="ask whether it could be done, and do nothing")


def _add_altering(altering: Parser) -> None:
    completed_by("topic", altering.add_argument("topic", type=topic_name, metavar="TOPIC"))
    altering.add_argument("--partitions", type=count, metavar="N", help="how many it shall have in all")
    altering.add_argument(
        "--config",
        action="append",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="change a setting; may be repeated",
    )
    altering.add_argument(
        "--delete-config",
        action="append",
        default=[],
        metavar="NAME",
        help="put a setting back to its default; may be repeated",
    )
    altering.add_argument("--dry-run", action="store_true", help="ask whether it could be done, and do nothing")


def _add_record_deletion(deletion: Parser) -> None:
    topics = deletion.add_argument("topics", nargs="+", type=topic_partitions, metavar="TOPIC[:N,N]")
    completed_by("topic", topics)
    deletion.add_argument(
        "--before",
        required=True,
        type=start,
        metavar="WHERE",
        help="an offset, latest (all records), -N to keep the last N offsets of each partition, a time"
        " (2026-01-31T08:00, UTC), or how long ago (7d)",
    )
    deletion.add_argument("--execute", action="store_true", help="do it")


# What is asked ------------------------------------------------------------------------------------------------------


async def _list(client: Client, options: Namespace) -> Sequence[str]:
    found = (await Admin(client).topics()).topics
    rows = [_listed(found[name]) for name in sorted(found) if options.internal or not found[name].is_internal]
    return shown(rows, _LISTED, options)


async def _create(client: Client, options: Namespace) -> Sequence[str]:
    hidden = await _hidden(client, options.topics)
    there = await existing(client, [name for name in options.topics if name not in hidden])
    if there and not options.if_not_exists:
        raise NotThere(f"there is a topic {min(there)!r} already")
    created: list[Row] = []
    for name in dict.fromkeys(options.topics):
        if name not in there:
            made = await Admin(client).create_topic(
                name,
                options.partitions or _NOBODY,
                replication_factor=options.replication_factor or _NOBODY,
                configs=dict(options.config),
                validate_only=options.dry_run,
            )
            created.append(_made(made, dict(options.config)))
            if not options.dry_run and name not in hidden:
                await _until(functools.partial(_is_ready, client, name))
    return shown(created, _CREATED, options)


async def _describe(client: Client, options: Namespace) -> Sequence[str]:
    if options.topics:
        found = await existing(client, options.topics)
        _require_all(options.topics, found)
    else:
        everything = (await Admin(client).topics()).topics
        found = {name: everything[name] for name in sorted(everything) if not everything[name].is_internal}
    lines: list[str] = []
    for name in found:
        topic = found[name]
        own = await _own_settings_if_allowed(client, name)
        rows = await _partitions(client, topic)
        if options.json:
            about = {**_listed(topic), "configs": own}
            lines += shown([{**about, "partitions": rows}], {}, options)
        else:
            settings = "settings are not told without DESCRIBE_CONFIGS"
            if own is not None:
                settings = ", ".join(f"{key}={value}" for key, value in own.items()) or "default settings"
            lines += [f"{name}: topic id {uuid_text(topic.topic_id)}, {settings}", *shown(rows, _PARTITIONS, options)]
    return lines


async def _alter(client: Client, options: Namespace) -> Sequence[str]:
    name = options.topic
    _require_all([name], await existing(client, [name]))
    admin = Admin(client)
    changes: dict[str, str | None] = {**dict(options.config), **dict.fromkeys(options.delete_config)}
    if changes:
        await admin.alter_configs(name, changes, validate_only=True)  # else half of the command might be done
    if options.partitions:
        await admin.create_partitions(name, options.partitions, validate_only=options.dry_run)
    if changes and not options.dry_run:
        await admin.alter_configs(name, changes)
        await _until(lambda: _shows(client, name, changes))
    topic = (await existing(client, [name]))[name]
    return shown([{**_listed(topic), "configs": await _own_settings(client, name)}], _CREATED, options)


async def _delete(client: Client, options: Namespace) -> Sequence[str]:
    found = await existing(client, options.topics)
    if not options.if_exists:
        _require_all(options.topics, found)
    if found:
        await Admin(client).delete_topics(sorted(found))
        await _until(lambda: _are_gone(client, sorted(found)))
    return shown([_listed(found[name]) for name in sorted(found)], _LISTED, options)


async def _delete_records(client: Client, options: Namespace) -> Sequence[str]:
    partitions = list(dict.fromkeys(await named_partitions(client, options.topics)))
    now_ms = SystemClock().now_ms()
    before = await offsets_of(
        client, options.before, partitions, isolation=IsolationLevel.READ_COMMITTED, now_ms=now_ms
    )
    starts = await list_offsets(client, dict.fromkeys(partitions, EARLIEST))
    rows: list[Row] = []
    for each in partitions:
        after = max(before[each], starts[each])
        if options.execute and after > starts[each]:
            after = await Admin(client).delete_records(each, after)
        rows.append({"topic": each.topic, "partition": each.partition, "before": starts[each], "after": after})
    lines = shown(rows, _DELETED, options)
    if not options.execute and not options.json:
        lines.append("Nothing was deleted: --execute does it.")
    return lines


_ACTIONS: Final[Mapping[str, Action]] = {
    "list": _list,
    "create": _create,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
    "delete-records": _delete_records,
}


async def existing(client: Client, names: Sequence[str]) -> dict[str, TopicInfo]:
    """The named topics that exist. Raises BrokerError for one that may not be seen."""
    found = await Admin(client).topics(list(dict.fromkeys(names)))
    absent = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
    return {name: found.topic(name) for name in names if found.topics[name].error not in absent}


async def _hidden(client: Client, names: Sequence[str]) -> set[str]:
    """The names that may not be looked up: a principal that may create a topic need not be allowed to describe it."""
    found = await Admin(client).topics(list(dict.fromkeys(names)))
    return {name for name in names if found.topics[name].error == ErrorCode.TOPIC_AUTHORIZATION_FAILED}


async def named_partitions(client: Client, topics: Sequence[tuple[str, tuple[int, ...]]]) -> list[TopicPartition]:
    """The partitions that `topic_partitions` names. Raises NotThere."""
    found = await existing(client, [name for name, _ in topics])
    named = []
    for name, numbers in topics:
        if name not in found:
            raise no_such("topic", name)
        for number in numbers or sorted(found[name].partitions):
            if number not in found[name].partitions:
                raise NotThere(f"topic {name!r} has no partition {number}")
            named.append(TopicPartition(name, number))
    return named


def _require_all(names: Sequence[str], found: Mapping[str, TopicInfo]) -> None:
    for name in names:
        if name not in found:
            raise no_such("topic", name)


# A broker other than the one that decided hears of it a moment later: the next command shall find it.


async def _until(true: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(_MOST_CHECKS):
        if await true():
            return
        await asyncio.sleep(_BETWEEN_CHECKS_S)


async def _is_ready(client: Client, name: str) -> bool:
    topic = (await client.fetch_metadata([name])).topics[name]
    return bool(topic.partitions) and all(each.leader >= 0 for each in topic.partitions.values())


async def _shows(client: Client, name: str, changes: Mapping[str, str | None]) -> bool:
    own = await _own_settings(client, name)
    return all(own.get(key) == value or own.get(key) == _HIDDEN for key, value in changes.items())


async def _are_gone(client: Client, names: Sequence[str]) -> bool:
    return not await existing(client, names)


async def _own_settings(client: Client, topic: str) -> dict[str, str | None]:
    settings = await Admin(client).describe_configs(topic)
    return {
        each.name: _HIDDEN if each.is_sensitive else each.value
        for each in settings.values()
        if each.config_source == _SET_FOR_THE_TOPIC
    }


async def _own_settings_if_allowed(client: Client, topic: str) -> dict[str, str | None] | None:
    """The same; None for a user who may describe the topic and not its settings, as a consumer or a producer."""
    try:
        return await _own_settings(client, topic)
    except BrokerError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return None


async def _partitions(client: Client, topic: TopicInfo) -> list[Row]:
    led = [TopicPartition(topic.name, index) for index, each in sorted(topic.partitions.items()) if each.leader >= 0]
    starts = await list_offsets(client, dict.fromkeys(led, EARLIEST))
    stable = await list_offsets(client, dict.fromkeys(led, LATEST), isolation=IsolationLevel.READ_COMMITTED)
    ends = await list_offsets(client, dict.fromkeys(led, LATEST))
    rows: list[Row] = []
    for index, each in sorted(topic.partitions.items()):
        partition = TopicPartition(topic.name, index)
        rows.append(
            {
                "partition": index,
                "leader": each.leader,
                "replicas": list(each.replicas),
                "in_sync": list(each.in_sync),
                "log_start_offset": starts.get(partition, _NOBODY),
                "last_stable_offset": stable.get(partition, _NOBODY),
                "high_watermark": ends.get(partition, _NOBODY),
            }
        )
    return rows


# How it is shown ----------------------------------------------------------------------------------------------------


def _listed(topic: TopicInfo) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(each.replicas) for each in topic.partitions.values()), default=0),
    }


def _made(topic: CreatableTopicResult, configs: Mapping[str, str]) -> Row:
    return {
        "topic": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "partitions": topic.num_partitions,
        "replication_factor": topic.replication_factor,
        "configs": dict(configs),
    }
