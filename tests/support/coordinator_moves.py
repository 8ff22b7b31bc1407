"""A group's coordinator moves from one broker to the other and back, again and again: `make proof-moves`.

    python coordinator_moves.py --repeats 50 [--from kafka] [--to eosin] [--busy 2] [--logs FOLDER] [--state FILE]

One cluster of two brokers for all repeats. In each a fresh consumer (librdkafka) of a fresh group reads and commits,
the coordinator moves, and the consumer reads and commits on: there and back. The debug log of each consumer tells how
long it was without a coordinator, how long no heartbeat of it was accepted, what it was answered, and whether it is the
same member afterwards. `--busy` programs that use all they get of a processor run beside it. Ends with 1 when a member
was lost; the logs of such repeats are kept in `--logs`, or all of them with `--keep`. The state file has a line for
each move, so that a run that was stopped goes on where it was, with a new cluster.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from joined_broker import JoinedBroker
from kraft_node import KafkaBroker, QuorumController
from librdkafka_log import DEBUG, Story, lines, story
from librdkafka_log import kept as log_kept
from mixed_cluster import SETTINGS, Cluster, connected
from proof.books import enter, lines_of
from proof.reporting import report_failure, report_figures
from real_clients import confluent
from real_clients.base import ClientRefused
from wire import unique

from eosin.protocol.names import TopicPartition

KINDS: Final = ("eosin", "kafka")
RECORDS: Final = 20
SESSION_MS: Final = 10_000
READ_S: Final = 60
LOADING: Final = "COORDINATOR_LOAD_IN_PROGRESS"


class Two(NamedTuple):
    """Brokers 1 and 2, of either kind."""

    nodes: tuple[JoinedBroker | KafkaBroker, JoinedBroker | KafkaBroker]

    @property
    def addresses(self) -> str:
        """The bootstrap servers."""
        return ",".join(node.address for node in self.nodes)

    def address(self, node_id: int) -> str:
        """The address of one of them."""
        return self.nodes[node_id - 1].address


@contextmanager
def two_brokers(folder: Path, kinds: tuple[str, str]) -> Iterator[Two]:
    """A cluster of these two, whose internal topics have one partition each. Raises `toolchains.NotHere`."""
    with ExitStack() as stack:
        controller = stack.enter_context(QuorumController(folder / "controller"))
        nodes = [
            KafkaBroker(folder / f"kafka-{node_id}", controller, node_id=node_id, settings=SETTINGS)
            if kind == "kafka"
            else JoinedBroker(
                folder / f"eosin-{node_id}", controller, node_id=node_id, durability="fsync", settings=SETTINGS
            )
            for node_id, kind in enumerate(kinds, start=1)
        ]
        for node in nodes:
            stack.enter_context(node)
        yield Two((nodes[0], nodes[1]))


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many programs that use all they get of a processor."""
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


@dataclass
class Table:
    """The repeats of one kind."""

    stories: list[Story] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """The reason for each member that was lost."""

    def of_book(self) -> dict[str, float]:
        """The figures for the book of a long proof."""
        return {
            "moves": len(self.stories),
            "lost": len(self.lost),
            "longest_unheard_s": round(max(each.unheard_s for each in self.stories), 2),
            "longest_without_s": round(max(each.without_s for each in self.stories), 2),
        }

    def told(self) -> list[str]:
        """The figures for people."""
        refusals = sum((each.refusals for each in self.stories), Counter())
        dropped = Counter(each.dropped for each in self.stories)
        slowest = {name: max(each.slowest_s[name] for each in self.stories) for name in self.stories[0].slowest_s}
        return [
            f"{len(self.stories)} repeats, {len(self.lost)} members lost;"
            f" longest without an accepted heartbeat {max(each.unheard_s for each in self.stories):.2f} s,"
            f" without a coordinator {max(each.without_s for each in self.stories):.2f} s",
            "  coordinators forgotten (repeats): " + ", ".join(f"{n} ({c})" for n, c in sorted(dropped.items())),
            "  longest wait for an answer: " + ", ".join(f"{name} {wait:.2f} s" for name, wait in slowest.items()),
            *(f"  {count:4} {refusal}" for refusal, count in sorted(refusals.items())),
            *(f"  lost: {why}" for why in self.lost),
        ]


async def move(
    two: Two, cluster: Cluster, *, before: int, after: int, home: int, settings: dict[str, str], log: Path
) -> tuple[Story, str]:
    """One repeat, with the topic on the broker `home`: the story of the consumer, and why it was lost, if it was."""
    await cluster.move(before)
    partition, group = await cluster.topic(home), unique("group")
    await asyncio.to_thread(_produce, two, partition)
    with log_kept(log):
        consumer = confluent.Confluent().consumer(
            two.addresses, group=group, more={"session.timeout.ms": SESSION_MS, "debug": DEBUG, **settings}
        )
        try:
            consumer.subscribe([partition.topic])
            refused = await asyncio.to_thread(_read_and_commit, consumer, partition, RECORDS)
            assert not refused, refused
            member, begun_s = consumer.raw.memberid(), time.time()
            await cluster.move(after)
            await asyncio.to_thread(_produce, two, partition)
            lost = await asyncio.to_thread(_read_and_commit, consumer, partition, 2 * RECORDS)
            if not lost and consumer.raw.memberid() != member:
                lost = "it is another member now"
            ended_s = time.time()
        finally:
            await asyncio.to_thread(consumer.close)
    told = await asyncio.to_thread(_story_in, log, begun_s, ended_s)
    if told.timed_out:
        lost = f"its session ran out; {lost}"
    elif told.joins:
        lost = f"it joined again; {lost}"
    return told, lost


def _story_in(log: Path, begun_s: float, ended_s: float) -> Story:
    return story(lines(log.read_text(errors="replace")), begun_s=begun_s, ended_s=ended_s)


def _produce(two: Two, partition: TopicPartition) -> None:
    producer = confluent.CLIENT.producer(two.addresses)
    for number in range(RECORDS):
        producer.send(partition.topic, b"%d" % number, partition=partition.partition)
    producer.flush()


def _read_and_commit(consumer: confluent.ConfluentConsumer, partition: TopicPartition, up_to: int) -> str:
    """Read and commit; return the reason of a failure, or empty."""
    got = len(consumer.read(RECORDS, READ_S))
    if got < RECORDS:
        return f"{got} records in {READ_S} s"
    while True:
        try:
            consumer.commit({(partition.topic, partition.partition): up_to})
        except ClientRefused as refused:
            if LOADING not in str(refused):  # librdkafka itself gives up after 0.3 s (docs/clients/python.md)
                return str(refused)
            time.sleep(0.1)
        else:
            return ""


async def run(
    two: Two, kinds: tuple[str, str], *, moves: range, settings: dict[str, str], logs: Path, keep: bool, state: Path
) -> None:
    """Make these moves, there and back, and enter each in the state file."""
    async with connected(two) as cluster:
        for number in moves:
            before, after = (1, 2) if number % 2 == 0 else (2, 1)
            home = 1 + number // 2 % 2
            way = f"{kinds[before - 1]} to {kinds[after - 1]}, topic at the {'old' if home == before else 'new'} one"
            log = logs / f"{number:03}.log"
            told, lost = await move(two, cluster, before=before, after=after, home=home, settings=settings, log=log)
            enter(state, way=way, lost=lost, story=told._asdict())
            print(
                f"{number:3} {way}: {told.unheard_s:.2f} s unheard, {told.without_s:.2f} s without a coordinator,"
                f" {told.dropped} forgotten{f'; LOST: {lost}; {log}' if lost else ''}",
                flush=True,
            )
            if not lost and not keep:
                log.unlink()


def tables_of(lines: Iterable[Mapping[str, Any]]) -> dict[str, Table]:
    """The moves of a state file, by their way."""
    tables: defaultdict[str, Table] = defaultdict(Table)
    for line in lines:
        kept = line["story"]
        tables[line["way"]].stories.append(Story(**{**kept, "refusals": Counter(kept["refusals"])}))
        tables[line["way"]].lost += [line["lost"]] if line["lost"] else []
    return tables


def main() -> int:
    """Run all repeats and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--from", dest="before", choices=KINDS, default="kafka")
    parser.add_argument("--to", dest="after", choices=KINDS, default="eosin")
    parser.add_argument("--busy", type=int, default=0, help="programs that use a processor each")
    parser.add_argument("--logs", type=Path, help="a folder for the clients' logs (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="the log of every repeat, not only where a member was lost")
    parser.add_argument("--state", type=Path, help="the file of moves that are made (default: a temporary one)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the consumer")
    options = parser.parse_args()
    settings = dict(each.split("=", 1) for each in options.set)
    logs = options.logs or Path(tempfile.mkdtemp(prefix="moves-logs-"))
    logs.mkdir(parents=True, exist_ok=True)
    kinds = (options.before, options.after)
    with tempfile.TemporaryDirectory(prefix="moves-") as folder:
        state = options.state or Path(folder) / "moves.json"
        if moves := range(len(lines_of(state)), 2 * options.repeats):
            with two_brokers(Path(folder), kinds) as two, busy(options.busy):
                asyncio.run(run(two, kinds, moves=moves, settings=settings, logs=logs, keep=options.keep, state=state))
        tables = tables_of(lines_of(state))
    for way, table in tables.items():
        print(f"{way}, {options.busy} busy programs:", *table.told(), sep="\n")
    report_figures(**{way: table.of_book() for way, table in tables.items()})
    lost = [f"{way}: {why}" for way, table in tables.items() for why in table.lost]
    for each in lost:
        report_failure(each, f"logs in {logs}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
