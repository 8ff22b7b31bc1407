"""`eosin groups`: the groups of any Kafka cluster, and how far they have read: `list`, `describe`, `reset-offsets`,
`delete-offsets`, `delete`.

Always true: a group is put elsewhere or deleted only while it has no members, and put elsewhere only with `--execute`.
"""

import sys
from argparse import ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from eosin.cli.common.arguments import Parser, completed_by, fail, topic_partitions
from eosin.cli.common.remote_commands import NotThere, Row, add_common, no_such, print_lines, shown
from eosin.cli.records.offset_files import offsets_in
from eosin.cli.records.positions import Start, StartKind, offsets_of, start, timestamp_ms
from eosin.cli.topics import existing, named_partitions
from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.client.errors import BrokerError
from eosin.client.groups import (
    CLASSIC,
    CONSUMER,
    KIND_OF_FEATURE,
    SHARE,
    STREAMS,
    GroupAdmin,
    GroupDescription,
    GroupMember,
    moves_of,
    subscription_of,
)
from eosin.client.offsets import EARLIEST, LATEST, list_offsets
from eosin.client.share_groups import share_positions
from eosin.client.streams_groups import task_moves
from eosin.protocol.names import IsolationLevel, TopicPartition
from eosin.runtime.clock import SystemClock

_COMMAND: Final = "groups"
_COUNTED_BYTES: Final = 16 * 1024 * 1024
"""The most bytes that are fetched to count the records that a group has not read."""

_LISTED: Final = {
    "group": "GROUP",
    "state": "STATE",
    "type": "TYPE",
    "protocol": "PROTOCOL",
    "coordinator": "COORDINATOR",
}
_POSITIONS: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "committed": "COMMITTED",
    "last_stable_offset": "LAST STABLE",
    "high_watermark": "HIGH WATERMARK",
    "lag": "LAG",
    "record_lag": "RECORD LAG",
    "member": "MEMBER",
}
_MEMBERS: Final = {
    "member_id": "MEMBER ID",
    "instance_id": "INSTANCE ID",
    "client_id": "CLIENT ID",
    "host": "HOST",
    "partitions": "PARTITIONS",
}
_CONSUMER_MEMBERS: Final = {
    "member_id": "MEMBER ID",
    "instance_id": "INSTANCE ID",
    "client_id": "CLIENT ID",
    "host": "HOST",
    "rack": "RACK",
    "protocol": "PROTOCOL",
    "epoch": "EPOCH",
    "subscription": "SUBSCRIPTION",
    "partitions": "PARTITIONS",
    "moves": "MOVES",
}
"""Of a consumer group (KIP-848); `MOVES` has what is to be revoked and what is still to come."""
_STREAMS_MEMBERS: Final = {
    "member_id": "MEMBER ID",
    "client_id": "CLIENT ID",
    "host": "HOST",
    "epoch": "EPOCH",
    "topology_epoch": "TOPOLOGY",
    "active": "ACTIVE",
    "standby": "STANDBY",
    "warmup": "WARM-UP",
    "endpoint": "ENDPOINT",
    "moves": "MOVES",
}
"""Of a streams group (KIP-1071), with tasks by the names that Kafka Streams gives them."""
_MEMBERS_OF: Final = {CONSUMER: _CONSUMER_MEMBERS, STREAMS: _STREAMS_MEMBERS}
_LEFT_OUT: Final = frozenset({CONSUMER, STREAMS})
"""The types of groups that the settings of a broker may leave out."""
_CONSUMING: Final = frozenset({"", CLASSIC, CONSUMER, STREAMS})
"""The types of groups that commit offsets; brokers before 3.8 tell none."""
_SHARE_MEMBERS: Final = {
    name: title for name, title in _CONSUMER_MEMBERS.items() if name not in ("instance_id", "protocol", "moves")
}
_SHARED: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "start_offset": "START",
    "high_watermark": "HIGH WATERMARK",
    "lag": "LAG",
    "members": "MEMBERS",
}
"""Of a share group (KIP-932): START is the first record that is not done with."""
_RESET: Final = {"topic": "TOPIC", "partition": "PARTITION", "before": "BEFORE", "after": "AFTER"}
_FORGOTTEN: Final = {"topic": "TOPIC", "partition": "PARTITION", "before": "BEFORE"}

Action = Callable[[Client, Namespace], Awaitable[Sequence[str]]]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    command = f"{_COMMAND} {options.action}"
    if options.action == "reset-offsets":
        if options.from_file and (options.topic or options.all_topics):
            return fail(command, "--from-file names the partitions itself: give neither --topic nor --all-topics")
        if not (options.from_file or options.topic or options.all_topics):
            return fail(command, "give --topic or --all-topics")
    asked = _ACTIONS[options.action]
    return print_lines(command, lambda client: asked(client, options), options)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin groups",
        description="Show consumer groups, put them elsewhere, and delete them.",
        examples=["eosin groups list", "eosin groups describe readers"],
    )
    actions = options.add_subparsers(
        dest="action", required=True, metavar="list|describe|reset-offsets|delete-offsets|delete"
    )
    listing = actions.add_parser(
        "list",
        help="all groups",
        description="List the groups of the cluster.",
        examples=["eosin groups list", "eosin groups list --state Empty", "eosin groups list --type consumer"],
    )
    listing.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="TYPE",
        help="only classic, consumer, share or streams groups; may be repeated",
    )
    listing.add_argument(
        "--state", action="append", default=[], metavar="STATE", help="only those in this state; may be repeated"
    )
    describing = actions.add_parser(
        "describe",
        help="how far groups have read",
        description="Show where groups are in each partition, and how much they have not read: LAG counts offsets,"
        " RECORD LAG the records that a read_committed reader will be given. Without a name: all groups that commit"
        " offsets, in one table. Of a share group (KIP-932), START is the first record that is not done with."
        " Members of a consumer or streams group (KIP-848, KIP-1071) have an epoch, a subscription, and MOVES:"
        " -PARTITION is to be revoked, +PARTITION is still to come.",
        examples=["eosin groups describe", "eosin groups describe readers --members"],
    )
    completed_by("group", describing.add_argument("groups", nargs="*", metavar="GROUP"))
    describing.add_argument("--members", action="store_true", help="its members instead")
    _add_resetting(
        actions.add_parser(
            "reset-offsets",
            help="put a group elsewhere",
            usage="eosin groups reset-offsets GROUP [--topic TOPIC[:N,N]]... [--all-topics] WHERE [--execute]",
            description="Put a group without members elsewhere. Without --execute: show what would be done.",
            examples=[
                "eosin groups reset-offsets readers --topic orders --to-earliest",
                "eosin groups reset-offsets readers --topic orders:0,2 --shift-by -10 --execute",
                "eosin groups reset-offsets readers --all-topics --to-datetime 2026-01-31T08:00 --execute",
                "eosin groups reset-offsets readers --from-file positions.csv --execute",
            ],
        )
    )
    forgetting = actions.add_parser(
        "delete-offsets",
        help="forget where a group is in topics",
        description="Forget where a group is in topics that none of its members reads. Nobody is asked again.",
        examples=["eosin groups delete-offsets readers --topic orders"],
    )
    completed_by("group", forgetting.add_argument("group", metavar="GROUP"))
    _add_topic(forgetting, required=True)
    deleting = actions.add_parser(
        "delete",
        help="delete groups and their positions",
        description="Delete groups without members, with all that they have committed. Nobody is asked again.",
        examples=["eosin groups delete readers"],
    )
    completed_by("group", deleting.add_argument("groups", nargs="+", metavar="GROUP"))
    for action in actions.choices.values():
        add_common(action)
    return options


def _add_resetting(resetting: Parser) -> None:
    completed_by("group", resetting.add_argument("group", metavar="GROUP"))
    _add_topic(resetting, required=False)
    resetting.add_argument("--all-topics", action="store_true", help="every partition that the group has a position in")
    where = resetting.add_argument_group("WHERE").add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--to-earliest", dest="where", action="store_const", const=Start(StartKind.EARLIEST), help="to the beginning"
    )
    where.add_argument(
        "--to-latest", dest="where", action="store_const", const=Start(StartKind.LATEST), help="to the end"
    )
    where.add_argument(
        "--to-current", dest="where", action="store_const", const=Start(StartKind.SHIFT), help="to where it is"
    )
    where.add_argument("--to-offset", dest="where", type=_offset, metavar="N", help="to this offset")
    where.add_argument("--shift-by", dest="where", type=_shift, metavar="N", help="by so many offsets; -N goes back")
    where.add_argument("--to-datetime", dest="where", type=_since, metavar="TIME", help="2026-01-31T08:00 (UTC)")
    where.add_argument("--by-duration", dest="where", type=_ago, metavar="TIME", help="so long ago: 15m, 2h, 1d")
    where.add_argument(
        "--from-file", type=offsets_in, metavar="FILE", help="to the offsets of its lines TOPIC,PARTITION,OFFSET"
    )
    doing = resetting.add_mutually_exclusive_group()
    doing.add_argument("--execute", action="store_true", help="do it")
    doing.add_argument("--dry-run", action="store_true", help="only show what would be done (the default)")


def _add_topic(parser: Parser, *, required: bool) -> None:
    topic = parser.add_argument(
        "--topic",
        action="append",
        type=topic_partitions,
        default=[],
        required=required,
        metavar="TOPIC[:N,N]",
        help="a topic, or some of its partitions; may be repeated",
    )
    completed_by("topic", topic)


# Where a group may be put -------------------------------------------------------------------------------------------


def _offset(text: str) -> Start:
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise ArgumentTypeError(f"must be an offset, not {text!r}")
    return Start(StartKind.OFFSET, int(text))


def _shift(text: str) -> Start:
    try:
        return Start(StartKind.SHIFT, int(text))
    except ValueError:
        raise ArgumentTypeError(f"must be an integer, not {text!r}") from None


def _since(text: str) -> Start:
    try:
        return Start(StartKind.SINCE, timestamp_ms(text))
    except ValueError:
        raise ArgumentTypeError(f"must be a time such as 2026-01-31T08:00, not {text!r}") from None


def _ago(text: str) -> Start:
    found = start(text)
    if found.kind is not StartKind.AGO:
        raise ArgumentTypeError(f"must be a duration such as 15m, not {text!r}")
    return found


# What is asked ------------------------------------------------------------------------------------------------------


async def _list(client: Client, options: Namespace) -> Sequence[str]:
    found = await GroupAdmin(client).list_groups(states=options.state, types=options.type)
    wanted = {state.lower() for state in options.state}, {kind.lower() for kind in options.type}
    rows = [
        {
            "group": each.group_id,
            "state": each.state or None,
            "type": each.type or None,
            "protocol": each.protocol_type or None,
            "coordinator": each.coordinator,
        }
        for each in found
        if not wanted[0] or each.state.lower() in wanted[0]
        if not wanted[1] or each.type.lower() in wanted[1]
    ]
    return shown(rows, _LISTED, options)


async def _describe(client: Client, options: Namespace) -> Sequence[str]:
    admin = GroupAdmin(client)
    names = options.groups or sorted(each.group_id for each in await admin.list_groups() if each.type in _CONSUMING)
    lines: list[str] = []
    rows: list[Row] = []
    for name in dict.fromkeys(names):
        try:
            group = await admin.describe(name)
            if group.type == SHARE:
                lines += await _describe_shared(client, group, options)
                continue
            committed = await admin.offsets(name)
            positions = await _positions(client, group, committed)
        except BrokerError as error:
            if options.groups:
                raise
            print(f"eosin groups describe: {name!r} is left out: {error}", file=sys.stderr)
            continue
        if not group.is_there and not committed:
            if not options.groups:  # it has gone meanwhile
                continue
            raise await _absent(admin, name)
        members = [_member(each) for each in group.members]
        if options.json:
            about = {"group": name, "state": group.state, "type": group.type, "coordinator": group.coordinator}
            about |= {"assignor": group.assignor or None, "epoch": group.epoch}
            about["assignment_epoch"] = group.assignment_epoch
            if group.topology is not None:
                about["topology_epoch"] = group.topology.epoch
            lines += shown([{**about, "members": members, "partitions": positions}], {}, options)
        elif not options.groups:
            rows += [{"group": name, **each} for each in (members if options.members else positions)]
        else:
            lines.append(_heading(group, positions))
            of_members = _MEMBERS_OF.get(group.type, _MEMBERS)
            lines += shown(members, of_members, options) if options.members else shown(positions, _POSITIONS, options)
    if not options.groups and not options.json:
        lines = shown(rows, {"group": "GROUP", **(_MEMBERS if options.members else _POSITIONS)}, options)
    return lines


async def _describe_shared(client: Client, group: GroupDescription, options: Namespace) -> Sequence[str]:
    """A share group: where it is, and who reads. Several members may read a partition."""
    positions = await share_positions(client, group.group_id)
    readers = Counter(partition for member in group.members for partition in member.partitions)
    everything = sorted({*positions, *readers})
    ends = await list_offsets(client, dict.fromkeys(await _still_there(client, everything), LATEST))
    rows: list[dict[str, Any]] = []
    for each in everything:
        found = positions.get(each)
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "start_offset": None if found is None or found.start_offset < 0 else found.start_offset,
                "high_watermark": ends.get(each),
                "lag": None if found is None or found.lag < 0 else found.lag,
                "members": readers[each],
            }
        )
    members = [_member(each) for each in group.members]
    if options.json:
        about = {"group": group.group_id, "state": group.state, "type": group.type, "coordinator": group.coordinator}
        about |= {"assignor": group.assignor, "epoch": group.epoch, "assignment_epoch": group.assignment_epoch}
        return shown([{**about, "members": members, "partitions": rows}], {}, options)
    count = len(group.members)
    who = "1 member" if count == 1 else f"{count} members" if count else "no members: it stays until it is deleted"
    lag = sum(each["lag"] or 0 for each in rows)
    heading = f"{group.group_id}: share group, {group.state}, {who}; {lag:,} records not done with{_epochs(group)}"
    return [heading, *(shown(members, _SHARE_MEMBERS, options) if options.members else shown(rows, _SHARED, options))]


async def _reset(client: Client, options: Namespace) -> Sequence[str]:
    admin = GroupAdmin(client)
    group = await admin.describe(options.group)
    _require_idle(group, commits=True)
    committed = await admin.offsets(options.group)
    if options.from_file:
        await named_partitions(client, [(each.topic, (each.partition,)) for each in options.from_file])
        wanted = await _within(client, options.from_file)
    else:
        named = await named_partitions(client, options.topic)
        partitions = list(dict.fromkeys([*named, *(committed if options.all_topics else ())]))
        if not partitions:
            raise NotThere(f"group {options.group!r} has no position")
        wanted = await _places(client, options.where, partitions, committed)
    if options.execute:
        await admin.commit(options.group, wanted)
    rows = [
        {
            "group": options.group,
            "topic": each.topic,
            "partition": each.partition,
            "before": committed.get(each, -1),
            "after": offset,
        }
        for each, offset in sorted(wanted.items())
    ]
    lines = shown(rows, _RESET, options)
    if not options.execute and not options.json:
        lines.append("Nothing was changed: --execute does it.")
    return lines


async def _delete_offsets(client: Client, options: Namespace) -> Sequence[str]:
    admin = GroupAdmin(client)
    committed = await admin.offsets(options.group)
    wanted: dict[TopicPartition, None] = {}
    for topic, numbers in options.topic:
        having = [each for each in sorted(committed) if each.topic == topic]
        named = [TopicPartition(topic, number) for number in numbers] or having
        for each in named or [topic]:
            if each not in having:
                raise NotThere(f"group {options.group!r} has no position in {each}")
        wanted |= dict.fromkeys(named)
    await admin.delete_offsets(options.group, list(wanted))
    rows = [
        {"group": options.group, "topic": each.topic, "partition": each.partition, "before": committed[each]}
        for each in wanted
    ]
    return shown(rows, _FORGOTTEN, options)


async def _delete(client: Client, options: Namespace) -> Sequence[str]:
    admin = GroupAdmin(client)
    for name in options.groups:
        group = await admin.describe(name)
        if not group.is_there:
            raise no_such("group", name)
        _require_idle(group)
    for name in dict.fromkeys(options.groups):
        await admin.delete(name)
    return shown([{"group": name} for name in dict.fromkeys(options.groups)], {"group": "GROUP"}, options)


_ACTIONS: Final[Mapping[str, Action]] = {
    "list": _list,
    "describe": _describe,
    "reset-offsets": _reset,
    "delete-offsets": _delete_offsets,
    "delete": _delete,
}


async def _absent(admin: GroupAdmin, name: str) -> NotThere:
    """The error that no group of consumers has that name; one of another type may."""
    found = next((each for each in await admin.list_groups() if each.group_id == name), None)
    kind = "" if found is None else found.type
    for feature in () if found is None else await admin.unserved(found.coordinator):
        if kind == KIND_OF_FEATURE[feature]:
            return NotThere(
                f"group {name!r} is a {kind} group, and {feature} is 0: eosin features upgrade {feature} serves it"
            )
    if found is not None and kind in _LEFT_OUT:
        setting = f"group.coordinator.rebalance.protocols of broker {found.coordinator} may leave {kind} out"
        return NotThere(f"group {name!r} is a {kind} group, and its coordinator does not describe it: {setting}")
    if kind in _CONSUMING:
        return no_such("group", name)
    return NotThere(f"group {name!r} is a {kind} group: kafka-{kind}-groups.sh describes it")


def _require_idle(group: GroupDescription, *, commits: bool = False) -> None:
    if commits and group.type == SHARE:
        raise NotThere(f"group {group.group_id!r} is a share group: kafka-share-groups.sh puts it elsewhere")
    if group.members:
        count = len(group.members)
        what = "1 member" if count == 1 else f"{count} members"
        raise NotThere(f"group {group.group_id!r} is {group.state} with {what}: stop them first")


async def _places(
    client: Client, where: Start, partitions: Sequence[TopicPartition], committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The offset for each partition; one without a position cannot be shifted, and is left out."""
    if where.kind is not StartKind.SHIFT:
        now_ms = SystemClock().now_ms()
        return await offsets_of(client, where, partitions, isolation=IsolationLevel.READ_UNCOMMITTED, now_ms=now_ms)
    return await _within(client, {each: committed[each] + where.number for each in partitions if each in committed})


async def _within(client: Client, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The same offsets, or the nearest that the logs still have."""
    starts = await list_offsets(client, dict.fromkeys(wanted, EARLIEST))
    ends = await list_offsets(client, dict.fromkeys(wanted, LATEST))
    return {each: min(max(offset, starts[each]), ends[each]) for each, offset in wanted.items()}


async def _positions(
    client: Client, group: GroupDescription, committed: Mapping[TopicPartition, int]
) -> list[dict[str, Any]]:
    """Every partition that a group has a position in, or that a member is assigned."""
    members = {partition: member for member in group.members for partition in member.partitions}
    everything = sorted({*committed, *members})
    there = await _still_there(client, everything)
    starts = await list_offsets(client, dict.fromkeys(there, EARLIEST))
    stable = await list_offsets(client, dict.fromkeys(there, LATEST), isolation=IsolationLevel.READ_COMMITTED)
    ends = await list_offsets(client, dict.fromkeys(there, LATEST))
    record_lag = await _record_lag(client, committed, starts, stable)
    rows = []
    for each in everything:
        position, end = committed.get(each), ends.get(each)
        member = members.get(each)
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "committed": position,
                "log_start_offset": starts.get(each),
                "last_stable_offset": stable.get(each),
                "high_watermark": end,
                "lag": None if position is None or end is None else max(0, end - position),
                "record_lag": record_lag.get(each),
                "member": member and member.member_id,
            }
        )
    return rows


async def _still_there(client: Client, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions that exist and have a leader: a group keeps positions in topics that were deleted."""
    found = await existing(client, sorted({each.topic for each in partitions}))
    infos = {each: found[each.topic].partitions.get(each.partition) for each in partitions if each.topic in found}
    return [each for each, info in infos.items() if info is not None and info.leader >= 0]


async def _record_lag(
    client: Client,
    committed: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The records that a read_committed reader will be given; where there is too much to count, nothing."""
    behind = {each: max(committed[each], starts[each]) for each in ends if each in committed}
    consumer = Consumer(client, isolation=IsolationLevel.READ_COMMITTED)
    consumer.assign(behind)
    return await consumer.count_to({each: ends[each] for each in behind}, max_bytes=_COUNTED_BYTES)


# How it is shown ----------------------------------------------------------------------------------------------------


def _member(member: GroupMember) -> Row:
    target = member.target
    row: dict[str, Any] = {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host.removeprefix("/"),
        "partitions": [str(each) for each in sorted(member.partitions)],
        "rack": member.rack,
        "protocol": member.protocol or None,
        "epoch": member.epoch,
        "topics": list(member.topics),
        "regex": member.regex or None,
        "subscription": subscription_of(member.topics, member.regex),
        "target": None if target is None else [str(each) for each in sorted(target)],
        "moves": None if target is None else moves_of(member.partitions, target),
    }
    told = member.streams
    if told is not None:
        row |= {
            "topology_epoch": told.topology_epoch,
            "process_id": told.process_id,
            "endpoint": told.endpoint or None,
            "active": list(told.tasks.active),
            "standby": list(told.tasks.standby),
            "warmup": list(told.tasks.warmup),
            "moves": task_moves(told.tasks, told.target),
        }
    return row


def _heading(group: GroupDescription, positions: Sequence[Mapping[str, Any]]) -> str:
    count = len(group.members)
    members = "1 member" if count == 1 else f"{count} members"
    lag = sum(each["lag"] or 0 for each in positions)
    records = [each["record_lag"] for each in positions if each["committed"] is not None]
    known = f", {sum(records):,} of them records" if lag and None not in records else ""
    new = [each for each in positions if each["committed"] is None and each["high_watermark"] is not None]
    unread = sum(each["high_watermark"] - each["log_start_offset"] for each in new)
    never = f"; nothing committed for {len(new)} of {len(positions)} partitions" if new else ""
    never += f": up to {unread:,} offsets" if unread else ""
    topology = "" if group.topology is None else f"; topology {group.topology.epoch}"
    return f"{group.group_id}: {group.state}, {members}, {lag:,} offsets behind{known}{never}{_epochs(group)}{topology}"


def _epochs(group: GroupDescription) -> str:
    """The epoch of a consumer group, and that of its assignment."""
    if group.epoch is None:
        return ""
    if group.epoch == group.assignment_epoch:
        return f"; epoch {group.epoch}, assigned by {group.assignor}"
    return f"; epoch {group.epoch}, and the assignment by {group.assignor} is still that of {group.assignment_epoch}"
