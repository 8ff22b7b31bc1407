"""Three brokers and their controller, killed again and again under transactional copiers: `make cluster-crash`.

    python cluster_crash.py --rounds 20 [--form mixed] [--seed 1] [--state FILE]
    python cluster_crash.py --rounds 5 --form mixed --seed 1 --series 3 --state ""
    python cluster_crash.py --rounds 20 --clients java-4.4.0,eosin,eosin

A round copies the partitions of a topic to another, each by a client of its own, while one process after the other is
killed, stopped, paused or cut off and comes back, and operators make mistakes (`cluster_mistakes.py`). The clients are
three families in Python, which speak TV1, or those that are named: Java from 4 on and Eosin's own speak TV2. Then the
copy must be the original, once each and in order. A partition whose leader an unclean election chose may lack records,
and has none twice or out of order.
Five rounds are a series on a cluster of its own, which ends with a clean stop: the three data directories must agree
below their high watermarks (cluster.md 8 and 11). Of the brokers three are Eosin's, or one is Apache Kafka's (`--form
mixed`), or all are, which tells what is the clients' own doing (`--form kafka`).

The seed decides who goes away when, and for how long. Every other series is at durability fsync. The state file holds
the series that are done and their figures, so a run that was stopped goes on where it was; what the copiers of a series
said stays beside it if one of them was stuck.
"""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import confluent_kafka as ck
import copier
from confluent_kafka.admin import AdminClient, NewTopic
from crashed_cluster import FORMS, Copied, CrashedCluster, Violation
from descendants import end_with_me
from proof.reporting import cause, report_failure, report_figures
from real_clients import confluent, franz_go
from real_clients.base import read_all
from waiting import HANG_S

from eosin.client.client import Client
from eosin.client.consumer import Consumer
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition

COPIER: Final = Path(copier.__file__)
CLIENTS: Final = ("confluent-kafka", "kafka-python", "aiokafka")
CHOICE: Final = tuple(name for name in copier.CLIENTS if name != franz_go.CLIENT.name)
"""A session of franz-go reads every partition of its topic."""
SOURCE, TARGET = "source", "target"
RECORDS: Final = 3000
"""Of each partition, in a round."""
ROUND_S: Final = 600
"""Clients that wait without end take most of it (docs/clients.md)."""
ROUNDS_PER_SERIES: Final = 5
COPIERS_LOG: Final = "copiers.log"
"""The file with the output of a series' copiers, below its folder."""
DURABILITIES: Final = ("os", "fsync")
_STUCK: Final = re.compile(
    r"^a copier is stuck and starts again: \['([^']+)'.*?line \d+ in (\w+)\n *File \"[^\"]*/copier\.py\"",
    re.DOTALL | re.MULTILINE,
)
"""Matches the output of a copier before it starts itself again, with its stack: the client, and the call that did not
return."""


@dataclass
class Figures:
    """The figures of some series."""

    rounds: int = 0
    records: int = 0
    stuck: Counter[str] = field(default_factory=Counter)
    """The number of times that a client waited for more than 20 s in a call and was started again, by client and call
    (docs/clients.md)."""
    longest_round_s: int = 0
    batches: int = 0
    """The number of batches that were found equal in each two directories."""
    losses: Counter[str] = field(default_factory=Counter)
    """The number of losses, by kind and victim."""
    mistakes: Counter[str] = field(default_factory=Counter)
    """The number of an operator's mistakes, by kind and result."""
    lacking: int = 0
    """Records that unclean elections took."""

    def add(self, other: "Figures") -> None:
        """Add the figures of another series."""
        self.rounds += other.rounds
        self.records += other.records
        self.stuck += other.stuck
        self.longest_round_s = max(self.longest_round_s, other.longest_round_s)
        self.batches += other.batches
        self.losses += other.losses
        self.mistakes += other.mistakes
        self.lacking += other.lacking

    def lines(self) -> list[str]:
        """The figures for people."""
        return [
            f"{self.rounds} rounds, the longest {self.longest_round_s} s, {self.records} records copied, "
            f"{self.stuck.total()} stuck clients, {self.losses.total()} processes taken away: nothing lost or doubled"
            f"{f', but for {self.lacking} records by unclean elections' if self.lacking else ''}, "
            f"{self.batches} times a batch equal in two directories",
            *(f"  {count:4} {what}" for what, count in sorted((self.losses + self.mistakes).items())),
            *(f"  {count:4} stuck: {what}" for what, count in sorted(self.stuck.items())),
        ]


class Books:
    """The work that is done, kept in a file; without a path it is not kept."""

    def __init__(self, path: Path | None, *, form: str, seed: int, clients: Sequence[str] = CLIENTS) -> None:
        """Go on with what the file says. It must be about the same form, seed and clients: raises ValueError."""
        self.series = 0
        self.figures = Figures()
        self._path = path
        self._about = {"form": form, "seed": seed, "clients": list(clients)}
        if path is not None and path.exists():
            kept: dict[str, Any] = json.loads(path.read_text())
            if {name: kept.get(name) for name in self._about} != self._about:
                about = f"form {kept.get('form')} and seed {kept.get('seed')} with {kept.get('clients')}"
                raise ValueError(f"{path} is about {about}")
            self.series = kept["series"]
            counters = {name: Counter(kept["figures"].get(name, {})) for name in ("losses", "stuck", "mistakes")}
            self.figures = Figures(**{**kept["figures"], **counters})

    def done(self, figures: Figures, said: str = "") -> None:
        """A series has ended well; what its copiers `said` is kept if one of them was stuck."""
        if self._path is not None and figures.stuck:
            copier.keep_what_was_said(self._path, self.series, said)
        self.series += 1
        self.figures.add(figures)
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps({**self._about, "series": self.series, "figures": vars(self.figures)}, indent=1))
        fresh.replace(self._path)


def series(
    folder: Path,
    *,
    form: str,
    durability: str,
    seed: str,
    rounds: int,
    clients: Sequence[str] = CLIENTS,
    say: Callable[[str], None] = print,
) -> Figures:
    """So many rounds on a cluster in that folder. Raises Violation, and NotHere without Java."""
    figures = Figures()
    with CrashedCluster(folder, form=form, durability=durability) as cluster:
        for number in range(rounds):
            chance = random.Random(f"{seed}/{number}")
            started = time.monotonic()
            lacking = _round(cluster, number, chance, clients)
            seconds = round(time.monotonic() - started)
            figures.add(Figures(1, len(clients) * RECORDS - lacking, longest_round_s=seconds, lacking=lacking))
            say(f"round {number} of {form}, {durability}: {seconds} s, {cluster.losses.total()} taken away so far")
        cluster.stop()
        figures.batches = cluster.agree(*(f"{name}-{number}" for name in (SOURCE, TARGET) for number in range(rounds)))
        figures.losses += cluster.losses
        figures.mistakes += cluster.mistakes.made
    said = (folder / COPIERS_LOG).read_text()
    figures.stuck = Counter(f"{client} in {call}" for client, call in _STUCK.findall(said))
    return figures


def _round(cluster: CrashedCluster, number: int, chance: random.Random, clients: Sequence[str]) -> int:
    """Run a round, and return the number of records that the copy lacks where it may."""
    source, target = f"{SOURCE}-{number}", f"{TARGET}-{number}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(each, len(clients), 3) for each in (source, target)]).values():
        made.result(HANG_S)
    _fill(cluster.bootstrap, source, len(clients))
    _copy(cluster, source, target, chance, clients)
    cluster.wait_in_sync(source, target, TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC)
    return _check(cluster, target, len(clients))


def _fill(bootstrap: str, topic: str, partitions: int) -> None:
    failed: list[ck.KafkaError] = []
    producer = ck.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def delivered(error: ck.KafkaError | None, message: ck.Message) -> None:
        if error is not None:
            failed.append(error)

    for number in range(RECORDS):
        for partition in range(partitions):
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=delivered)
        producer.poll(0)
    if producer.flush(HANG_S) or failed:
        raise Violation(f"the records to copy were not all taken: {failed[:1]}")


def _copy(cluster: CrashedCluster, source: str, target: str, chance: random.Random, clients: Sequence[str]) -> None:
    environment = {
        **os.environ,
        "EOSIN_COPIER_STUCK_AFTER_S": "20",
        "EOSIN_COPIER_GIVE_UP_AFTER_S": str(ROUND_S),
        "EOSIN_COPIER_LARGEST_BATCH": "40",
        "EOSIN_COPIER_BESIDE_APACHE_KAFKA": "1" if cluster.has_apache_kafka else "0",
    }
    with (cluster.folder / COPIERS_LOG).open("a") as log:
        copiers = [
            subprocess.Popen(
                [
                    sys.executable, str(COPIER), client, cluster.bootstrap, source, target,
                    str(partition), str(RECORDS), str(chance.randrange(2**31)),
                ],
                stderr=log,
                env=environment,
            )
            for partition, client in enumerate(clients)
        ]  # fmt: skip
        deadline = time.monotonic() + ROUND_S
        try:
            while any(each.poll() is None for each in copiers):
                if time.monotonic() > deadline:
                    late = [client for client, each in zip(clients, copiers, strict=True) if each.poll() is None]
                    raise Violation(f"after {ROUND_S} s {', '.join(late)} had not copied everything")
                time.sleep(chance.uniform(0.5, 4))
                partition = chance.randrange(len(clients))
                cluster.disturb(chance, Copied(target, partition, copier=f"copy-{source}-{partition}"))
        finally:
            for each in copiers:
                if each.poll() is None:
                    each.kill()
                each.wait(HANG_S)
    codes = [each.returncode for each in copiers]
    if any(codes):
        raise Violation(f"copiers ended with {codes}")


def _check(cluster: CrashedCluster, target: str, partitions: int) -> int:
    """The copy is the original, once each and in order, or lacks what an unclean election took: how many records that
    are. Raises Violation."""
    bootstrap = cluster.bootstrap
    lacking = 0
    for partition in range(partitions):
        if TopicPartition(target, partition) in cluster.mistakes.may_lack:
            lacking += RECORDS - _in_order(bootstrap, TopicPartition(target, partition))
            continue
        consumer = confluent.CLIENT.consumer(bootstrap, group=f"readers-{target}")
        consumer.assign({(target, partition): 0})
        found = [each.value for each in read_all(consumer, RECORDS)]
        consumer.close()
        if found != [b"%d" % number for number in range(RECORDS)]:
            counts = Counter(found)
            missing = [number for number in range(RECORDS) if b"%d" % number not in counts]
            doubled = [value for value, count in counts.items() if count > 1]
            what = f"missing {missing[:5]}, twice {doubled[:5]}"
            raise Violation(f"{target}-{partition} has {len(found)} records of {RECORDS}: {what}")
    return lacking


def _in_order(bootstrap: str, partition: TopicPartition) -> int:
    """The number of records; none of them is there twice or out of order. Raises Violation."""

    async def read() -> list[int]:
        async with Client(bootstrap) as client:
            consumer = Consumer(client)
            consumer.assign({partition: 0})
            return [int(each.record.value or b"-1") for each in await consumer.read_to_end()]

    found = asyncio.run(read())
    wrong = [(one, other) for one, other in pairwise(found) if one >= other]
    if wrong:
        raise Violation(f"{partition}, which may lack something, has {wrong[:5]} one after the other")
    return len(found)


def _clients(text: str) -> tuple[str, ...]:
    """The clients that are named. Raises ArgumentTypeError."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in CHOICE]
    if unknown:
        raise argparse.ArgumentTypeError(f"no client {unknown[0]!r}: there are {', '.join(CHOICE)}")
    return names


def main() -> int:
    """Run until so many rounds are done, or one series fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="in all, those of the state file included")
    parser.add_argument("--form", choices=tuple(FORMS), default="eosin", help="whose brokers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--clients",
        type=_clients,
        default=CLIENTS,
        help=f"who copies, one partition each (default: {','.join(CLIENTS)}; known: {', '.join(CHOICE)})",
    )
    parser.add_argument("--series", type=int, help="begin with this series, whatever the state file says")
    parser.add_argument(
        "--state",
        help="the file of figures (default: bench-results/cluster-crash-FORM-SEED.json, with other clients named); "
        "empty: none",
    )
    options = parser.parse_args()
    path = options.state
    if path is None:
        others = "" if options.clients == CLIENTS else "-" + "+".join(options.clients)
        path = f"bench-results/cluster-crash-{options.form}-{options.seed}{others}.json"
    books = Books(Path(path) if path else None, form=options.form, seed=options.seed, clients=options.clients)
    if options.series is not None:
        books.series = options.series
    while (left := options.rounds - books.figures.rounds) > 0:
        number, rounds = books.series, min(left, ROUNDS_PER_SERIES)
        folder = Path(tempfile.mkdtemp(prefix=f"cluster-crash-{options.form}-{options.seed}-{number}-"))
        try:
            books.done(
                series(
                    folder,
                    form=options.form,
                    durability=DURABILITIES[number % len(DURABILITIES)],
                    seed=f"{options.seed}/{number}",
                    rounds=rounds,
                    clients=options.clients,
                    say=lambda line: print(line, flush=True),
                ),
                (folder / COPIERS_LOG).read_text(),
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the seed has to be told
            traceback.print_exc()
            report_failure(
                cause(error),
                f"again: --form {options.form} --seed {options.seed} --series {number} --rounds {rounds} "
                f'--clients {",".join(options.clients)} --state ""',
                f"what is left is in {folder}",
            )
            return 1
        shutil.rmtree(folder)
        print(f"series {number} is done; {books.figures.lines()[0]}", flush=True)
    report_figures(**vars(books.figures))
    print("\n".join(books.figures.lines()))
    return 0


if __name__ == "__main__":
    end_with_me()
    sys.exit(main())
