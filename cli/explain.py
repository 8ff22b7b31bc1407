"""`eosin explain SUBJECT`: why a transactional id, a partition or a group is as it is, in one sentence (console.md 3);
`eosin explain broker`: when the event loop of a broker stood still, and for whom; without a name: what is wrong now.

Asks over Kafka's APIs, so that it works with every broker; an Eosin with `--http` tells more: who did it, and why.
"""

import asyncio
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from eosin.cli.common.arguments import Parser, fail
from eosin.cli.common.output import until_broken_pipe
from eosin.cli.common.remote_commands import add_connection, attempt, moment, nearest_name
from eosin.cli.common.security_options import principal_of, security_of
from eosin.client.client import Client
from eosin.observe.explain.cluster_facts import ClusterFacts
from eosin.observe.explain.cluster_troubles import TroubleSearch
from eosin.observe.explain.explained import Explained
from eosin.observe.explain.stored_facts import StoredFacts
from eosin.observe.explain.subjects import KINDS, NotTold, find
from eosin.observe.explain.troubles import NOTHING, troubles_of
from eosin.observe.recorder.events import HistoryEvent
from eosin.observe.recorder.wording import client as client_words
from eosin.protocol.wire.codec import DecodeError
from eosin.runtime.clock import SystemClock
from eosin.storage.disk.interfaces import DirectoryInUse, UnusableDirectory
from eosin.storage.disk.system import ReadOnlyDisk
from eosin.storage.inspection.directory import lock

COMMAND: Final = "explain"
FOLLOW_MS: Final = 1000
_NUMBERS: Final = re.compile(r"[0-9.:,]+ ?(ms|s|min|h)?")
"""Matches the numbers in a sentence: they may change while its meaning stays the same."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 1 when nobody knows the subject."""
    command = parser()
    options = command.parse_args(arguments)
    if options.subject is None:
        for given, option in (
            (options.kind, "--as"),
            (options.data_dir, "--data-dir"),
            (options.timeline, "--timeline"),
        ):
            if given:
                command.error(
                    f"{option} needs a name; without one, `eosin explain` says what is wrong now in a cluster"
                )
    if options.data_dir is not None:
        return _stored(options)
    token = None
    if options.http_token_file is not None:
        try:
            token = Path(options.http_token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            return fail(COMMAND, f"cannot read --http-token-file {options.http_token_file}: {error}")
    return until_broken_pipe(lambda: attempt(COMMAND, lambda client: _explain(client, token, options), options))


def _stored(options: Namespace) -> int:
    """Explain from the files of a stopped broker."""
    path, disk = Path(options.data_dir).as_posix(), ReadOnlyDisk()
    if options.follow:
        return fail(COMMAND, "--follow asks a running cluster, and --data-dir reads the files of a stopped broker")
    try:
        held = lock(disk, path)
        try:
            files = StoredFacts(disk, path)
            found = asyncio.run(find(files, options.subject, options.kind))
        finally:
            held.release()
    except DirectoryInUse:
        return fail(COMMAND, f"a broker is at work in {path}: ask it instead, without --data-dir")
    except UnusableDirectory as error:
        return fail(COMMAND, str(error))
    except OSError as error:
        return fail(COMMAND, f"cannot read {error.filename}: {error.strerror}" if error.filename else str(error))
    except DecodeError as error:
        return fail(COMMAND, f"{path} has records that cannot be read: {error}; `eosin check` tells more")
    found = msgspec.structs.replace(found, evidence=(*found.evidence, f"from {files.source}"))
    return until_broken_pipe(lambda: _print(found, timeline=options.timeline, as_json=options.json))


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin explain",
        description="Say what is wrong now, worst first; or why a transactional id, a partition, a topic, a group or a"
        " producer id is as it is; or, of the word broker, when the event loop of a broker stood still, and for whom.",
        examples=[
            "eosin explain",
            "eosin explain invoicing-1",
            "eosin explain invoicing-1 --timeline",
            "eosin explain orders-0 --data-dir /var/lib/eosin",
            "eosin explain broker --http 127.0.0.1:9100",
        ],
    )
    options.add_argument(
        "subject",
        nargs="?",
        metavar="TRANSACTIONAL-ID | TOPIC-PARTITION | TOPIC | GROUP | PRODUCER-ID | broker",
        help="nothing: what is wrong now, worst first",
    )
    options.add_argument("--as", dest="kind", choices=KINDS, help="what the subject is, where several have that name")
    options.add_argument("--data-dir", metavar="DIR", help="from the files of a stopped broker")
    options.add_argument("--timeline", action="store_true", help="the events behind it, too")
    options.add_argument("--follow", action="store_true", help="ask again each second, and tell what is new")
    options.add_argument("--json", action="store_true", help="one JSON object")
    add_connection(options)
    options.add_argument(
        "--http",
        metavar="[https://]HOST:PORT",
        help="the HTTP listener of an Eosin (each broker's own, by its settings)",
    )
    options.add_argument("--http-token-file", metavar="FILE", help="the token that the HTTP listener wants")
    return options


async def _explain(client: Client, token: str | None, options: Namespace) -> int:
    """Explain once; with `--follow` again and again, and print whatever is new."""
    security = security_of(options)
    cluster = ClusterFacts(
        client,
        http=options.http,
        token=token,
        timeout_ms=max(1, round(options.timeout * 1000)),
        principal=principal_of(options),
        tls=None if security is None else security.tls,
    )
    if options.subject is None:
        return await _troubles(TroubleSearch(client, cluster), cluster, options)
    told = ""
    while True:
        try:
            found = await find(cluster, options.subject, options.kind)
        except NotTold as error:
            return fail(COMMAND, str(error), code=1)
        _complain(cluster)
        new = found.cause + _NUMBERS.sub("", found.sentence)
        code = 0 if new == told else _print(found, timeline=options.timeline, as_json=options.json)
        if not options.follow:
            if not found.is_known and (meant := await nearest_name(client, "subject", options.subject)) is not None:
                print(f"eosin {COMMAND}: did you mean {ascii(meant)[1:-1]}?", file=sys.stderr)
            return code
        sys.stdout.flush()
        told = new
        await SystemClock().sleep(FOLLOW_MS)


async def _troubles(search: TroubleSearch, cluster: ClusterFacts, options: Namespace) -> int:
    """Print what is wrong now: 0 for nothing, 1 for anything; with `--follow` again whenever it has changed."""
    told: list[str] | None = None
    while True:
        found = troubles_of(await search.run())
        _complain(cluster)
        new = [each.cause + _NUMBERS.sub("", each.what) for each in found.troubles]
        if new != told:
            if options.json:
                print(msgspec.json.encode(found).decode())
            else:
                for line_of in [each.line for each in found.troubles] or [NOTHING]:
                    print(line_of)
                for each in found.untold:
                    print(f"  ({each})")
        if not options.follow:
            return 1 if found.troubles else 0
        sys.stdout.flush()
        told = new
        await SystemClock().sleep(FOLLOW_MS)


def _complain(cluster: ClusterFacts) -> None:
    for complaint in cluster.complaints:
        print(f"eosin {COMMAND}: {complaint}", file=sys.stderr)
    cluster.complaints.clear()


def _print(found: Explained, *, timeline: bool, as_json: bool) -> int:
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        print(found.text)
        if timeline:
            for event in found.timeline:
                print("  " + line(event))
        for each in found.evidence:
            print(f"  ({each})")
    return 0 if found.is_known else 1


def line(event: HistoryEvent) -> str:
    """One event of a timeline."""
    pair = f" {event.producer_id}/{event.producer_epoch}" if event.producer_id >= 0 else ""
    who = f", {client_words(event.who)}" if event.who is not None else ""
    text = f"{moment(event.at_ms)}  {event.kind:<12}{pair} {event.words}{who}"
    return text if text.isprintable() else ascii(text)
