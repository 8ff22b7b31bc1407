"""`eosin transactions list | describe | find-hanging | abort | force-terminate`: what operators do about transactions
(KIP-664, KIP-939).

Works with every broker that serves these APIs, and asks all brokers of the cluster. Apache Kafka serves them since 3.0,
lists by duration since 3.8 and by pattern since 4.1.
"""

from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from eosin.cli.common.arguments import Parser, completed_by, fail, span
from eosin.cli.common.remote_commands import NotThere, Row, add_common, no_such, print_rows
from eosin.cli.common.security_options import security_of
from eosin.cli.producers import require, row
from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.transactions import (
    TRANSACTION_STATES,
    DescribedTransaction,
    ListedTransaction,
    OpenTransaction,
    TransactionAdmin,
)
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.facts import TransactionFacts
from eosin.observe.recorder.wording import client as client_words
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition
from eosin.runtime.clock import SystemClock

MINUTE_MS: Final = 60_000
GRACE_MS: Final = 5 * MINUTE_MS
"""The time that a transaction has to end after its longest timeout (transactions.md 6.10)."""

_LISTED: Final = {
    "transactional_id": "TRANSACTIONAL ID",
    "coordinator": "COORDINATOR",
    "producer_id": "PRODUCER ID",
    "state": "STATE",
    "duration_ms": "OPEN FOR",
    "time_left_ms": "TIME LEFT",
    "client": "CLIENT",
}
_DESCRIBED: Final = {
    "transactional_id": "TRANSACTIONAL ID",
    "coordinator": "COORDINATOR",
    "producer_id": "PRODUCER ID",
    "producer_epoch": "EPOCH",
    "state": "STATE",
    "timeout_ms": "TIMEOUT",
    "is_two_phase": "TWO-PHASE",
    "start_ms": "STARTED",
    "duration_ms": "OPEN FOR",
    "partitions": "PARTITIONS",
}
_OPEN: Final = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "producer_id": "PRODUCER ID",
    "producer_epoch": "EPOCH",
    "coordinator_epoch": "COORDINATOR EPOCH",
    "transaction_start_offset": "TRANSACTION START",
    "last_timestamp": "LAST TIMESTAMP",
    "duration_ms": "IDLE FOR",
}
_ABORTED: Final = {
    name: _OPEN[name] for name in ("topic", "partition", "producer_id", "producer_epoch", "coordinator_epoch")
}

_TERMINATED: Final = {
    name: _DESCRIBED[name]
    for name in ("transactional_id", "producer_id", "producer_epoch", "is_two_phase", "partitions")
}

_COMMAND: Final = "transactions"
_NONE_HANGS: Final = "no transaction hangs"
_HTTP_MS: Final = 1000
"""The patience with an HTTP listener, which knows the clients."""
_MOST_DETAILED: Final = 200
"""Transactions in a list whose age is asked for, each with a request of its own."""
_REST: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})

Action = Callable[[Client, Namespace], Awaitable[Sequence[Row]]]


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = parser().parse_args(arguments)
    complaint = _complaint(options)
    if complaint:
        return fail(f"{_COMMAND} {options.action}", complaint)
    asked, columns = _ACTIONS[options.action]
    return print_rows(
        f"{_COMMAND} {options.action}",
        lambda client: asked(client, options),
        options,
        columns,
        without=_NONE_HANGS if options.action == "find-hanging" else None,
    )


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin transactions",
        description="Show transactions, and end those that hang.",
        examples=[
            "eosin transactions list --state Ongoing",
            "eosin transactions find-hanging",
            "eosin transactions abort orders 3 --start-offset 1182",
        ],
    )
    actions = options.add_subparsers(
        dest="action", required=True, metavar="list|describe|find-hanging|abort|force-terminate"
    )
    listing = actions.add_parser(
        "list",
        help="transactional ids",
        description="List transactional ids.",
        examples=["eosin transactions list --state Ongoing --longer-than 60000"],
    )
    listing.add_argument(
        "--state",
        action="append",
        default=[],
        help=f"only those in this state; may be repeated ({', '.join(TRANSACTION_STATES)})",
    )
    listing.add_argument(
        "--producer-id",
        action="append",
        type=int,
        default=[],
        metavar="ID",
        help="only this one's; may be repeated",
    )
    listing.add_argument("--longer-than", type=int, default=-1, metavar="MS", help="only those open for longer")
    listing.add_argument("--pattern", metavar="REGEX", help="only ids that this RE2 expression matches as a whole")
    describing = actions.add_parser(
        "describe",
        help="one transactional id",
        description="Show one transactional id.",
        examples=["eosin transactions describe invoice-writer"],
    )
    completed_by("transactional id", describing.add_argument("transactional_id", metavar="ID"))
    finding = actions.add_parser(
        "find-hanging",
        help="open transactions that will never end",
        description="Find transactions that are open in a partition and that their coordinator does not know.",
        examples=["eosin transactions find-hanging --topic orders"],
    )
    _add_finding(finding)
    aborting = actions.add_parser(
        "abort",
        help="end one transaction in one partition",
        description="Abort one transaction in one partition.",
        examples=["eosin transactions abort orders 3 --start-offset 1182"],
    )
    _add_aborting(aborting)
    terminating = actions.add_parser(
        "force-terminate",
        help="end one transactional id's transaction, prepared or not",
        description="Abort the open transaction of a transactional id in all its partitions, and fence its producer.",
        examples=["eosin transactions force-terminate invoice-writer"],
    )
    completed_by("transactional id", terminating.add_argument("transactional_id", metavar="ID"))
    for action in (listing, describing, finding, aborting, terminating):
        add_common(action)
    return options


def _add_finding(finding: Parser) -> None:
    completed_by("topic", finding.add_argument("--topic", metavar="TOPIC", help="look at this topic only"))
    finding.add_argument("--partition", type=int, metavar="N", help="look at this partition of the topic only")
    finding.add_argument("--broker-id", type=int, metavar="N", help="look at partitions that this broker leads only")
    finding.add_argument(
        "--max-transaction-timeout",
        type=span,
        metavar="MINUTES",
        help="younger ones are left out, with 5 minutes on top (the brokers' transaction.max.timeout.ms)",
    )


def _add_aborting(aborting: Parser) -> None:
    completed_by("topic", aborting.add_argument("topic", metavar="TOPIC"))
    aborting.add_argument("partition", type=int, metavar="PARTITION")
    aborting.add_argument("--start-offset", type=int, metavar="OFFSET", help="where the open transaction starts")
    for name, value in (("--producer-id", "ID"), ("--producer-epoch", "N"), ("--coordinator-epoch", "N")):
        aborting.add_argument(name, type=int, metavar=value, help="instead of the start offset, all three")


def _complaint(options: Namespace) -> str | None:
    """The conflict between the options, as a sentence; None if there is none."""
    if options.action == "find-hanging" and options.partition is not None and options.topic is None:
        return "--partition needs --topic"
    if options.action == "abort":
        given = [
            value
            for value in (options.producer_id, options.producer_epoch, options.coordinator_epoch)
            if value is not None
        ]
        if (options.start_offset is None) == (not given) or len(given) not in (0, 3):
            return "give --start-offset, or else --producer-id, --producer-epoch and --coordinator-epoch"
    return None


# What is asked ------------------------------------------------------------------------------------------------------


async def _list(client: Client, options: Namespace) -> Sequence[Row]:
    listed = await TransactionAdmin(client).list_transactions(
        states=options.state,
        producer_ids=options.producer_id,
        longer_than_ms=options.longer_than,
        pattern=options.pattern,
    )
    unfinished = [each for each in listed if each.state not in _REST]
    ages = await _ages(client, [each.transactional_id for each in unfinished[:_MOST_DETAILED]], options)
    rows = [_listed(each, ages.get(each.transactional_id)) for each in unfinished]
    rows.sort(key=lambda row: -row["duration_ms"])
    return [*rows, *(_listed(each, None) for each in listed if each.state in _REST)]


async def _ages(client: Client, ids: Sequence[str], options: Namespace) -> dict[str, TransactionFacts]:
    """The facts of transactions, as far as they are told."""
    security = security_of(options)
    cluster = ClusterFacts(
        client,
        http=None,
        token=None,
        timeout_ms=min(_HTTP_MS, max(1, round(options.timeout * 1000))),
        tls=None if security is None else security.tls,
    )
    found = {}
    for each in ids:
        try:
            facts = await cluster.transaction(each)
        except BrokerError:  # it was forgotten meanwhile, or may be listed and not described
            continue
        if facts is not None:
            found[each] = facts
        if cluster.complaints:  # an HTTP listener that does not answer costs its time once
            break
    return found


async def _describe(client: Client, options: Namespace) -> Sequence[Row]:
    try:
        found = await TransactionAdmin(client).describe(options.transactional_id)
    except BrokerError as error:
        raise _unknown(error, options.transactional_id) from None
    facts = _described(found, SystemClock().now_ms())
    if found.is_two_phase and not options.json:
        facts["timeout_ms"] = -1  # there is none: the number that Kafka has for it would be shown as 25 days
    return [facts]


def _unknown(error: BrokerError, transactional_id: str) -> Exception:
    """The same error; for an id that is not there, one that offers another."""
    if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return error
    return no_such("transactional id", transactional_id)


async def _find_hanging(client: Client, options: Namespace) -> Sequence[Row]:
    admin = TransactionAdmin(client)
    if options.max_transaction_timeout is None:
        longest_ms = await admin.max_timeout_ms()
    else:
        longest_ms = round(options.max_transaction_timeout * MINUTE_MS)
    now_ms = SystemClock().now_ms()
    partitions = await _partitions(client, options)
    found = await admin.find_hanging(partitions, before_ms=now_ms - longest_ms - GRACE_MS)
    return [_open(each, now_ms) for each in found]


async def _abort(client: Client, options: Namespace) -> Sequence[Row]:
    partition = TopicPartition(options.topic, options.partition)
    await require(client, partition)
    admin = TransactionAdmin(client)
    who = {name: getattr(options, name) for name in ("producer_id", "producer_epoch", "coordinator_epoch")}
    if options.start_offset is not None:
        open_here = [
            each for each in await admin.open_transactions([partition]) if each.start_offset == options.start_offset
        ]
        if not open_here:
            raise NotThere(f"no transaction that starts at offset {options.start_offset} is open in {partition}")
        who = {name: getattr(open_here[0].producer, name) for name in who}
    await admin.abort(partition, **who)
    return [{"topic": partition.topic, "partition": partition.partition, **who}]


async def _force_terminate(client: Client, options: Namespace) -> Sequence[Row]:
    admin = TransactionAdmin(client)
    try:
        found = await admin.describe(options.transactional_id)
    except BrokerError as error:
        raise _unknown(error, options.transactional_id) from None
    if not found.is_open:
        raise NotThere(f"{found.transactional_id!r} has no open transaction: it is in state {found.state}")
    await admin.force_terminate(options.transactional_id)
    ended = _described(found, SystemClock().now_ms())
    return [{name: ended[name] for name in _TERMINATED}]


async def _partitions(client: Client, options: Namespace) -> list[TopicPartition]:
    """The partitions to look at, by name."""
    if options.topic is not None and options.partition is not None:
        await require(client, TopicPartition(options.topic, options.partition))
    metadata = await client.fetch_metadata(None if options.topic is None else [options.topic])
    if options.topic is not None and not metadata.topics[options.topic].partitions:
        raise no_such("topic", options.topic)
    if options.broker_id is not None and options.broker_id not in metadata.brokers:
        raise NotThere(f"there is no broker {options.broker_id}")
    return [
        TopicPartition(name, index)
        for name, topic in sorted(metadata.topics.items())
        for index, info in sorted(topic.partitions.items())
        if options.partition in (None, index) and options.broker_id in (None, info.leader)
    ]


_ACTIONS: Final[Mapping[str, tuple[Action, Mapping[str, str]]]] = {
    "list": (_list, _LISTED),
    "describe": (_describe, _DESCRIBED),
    "find-hanging": (_find_hanging, _OPEN),
    "abort": (_abort, _ABORTED),
    "force-terminate": (_force_terminate, _TERMINATED),
}


# How it is shown ----------------------------------------------------------------------------------------------------


def _listed(found: ListedTransaction, facts: TransactionFacts | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        name: getattr(found, name) for name in ("transactional_id", "coordinator", "producer_id", "state")
    }
    row |= {"duration_ms": -1, "time_left_ms": -1, "client": None}
    if facts is not None and facts.state not in _REST and facts.start_ms >= 0:
        row["duration_ms"] = max(0, facts.now_ms - facts.start_ms)
        if facts.deadline_ms >= 0:
            row["time_left_ms"] = max(0, facts.deadline_ms - facts.now_ms)
        if facts.history is not None:
            row["client"] = client_words(facts.history.opened_by or facts.history.owner) or None
    return row


def _described(found: DescribedTransaction, now_ms: int) -> dict[str, Any]:
    facts: dict[str, Any] = {name: getattr(found, name) for name in _DESCRIBED if name != "duration_ms"}
    facts["duration_ms"] = -1 if found.state in _REST or found.start_ms < 0 else now_ms - found.start_ms
    facts["partitions"] = [str(partition) for partition in found.partitions]
    return facts


def _open(found: OpenTransaction, now_ms: int) -> Row:
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        **row(found.producer),
        "duration_ms": now_ms - found.producer.last_timestamp,
    }
