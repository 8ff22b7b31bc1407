"""Runs other projects' own tests against Eosin and against Apache Kafka: `make peer-suites`, or by hand

    python tests/support/peer_suites.py franz-go ~/src/franz-go
    python tests/support/peer_suites.py librdkafka ~/src/librdkafka --only 0033,0113
    python tests/support/peer_suites.py kafka

A suite is what a client's authors hold to be true of a broker, so a test that passes at Apache Kafka and fails at Eosin
is a defect of Eosin until its cause is known. The sources are a checkout of the client's; nothing of them is kept here.
Those of Apache Kafka's own clients come from Maven, and start their brokers themselves (`kafka_client_tests.py`).
Each test runs in a process of its own, with a limit; one that fails runs once more, since others' tests race real
time, too. What came out is kept in `tests/peer_suites/results` as it comes, and `--missing` goes on with what has no
result; `docs/testing/peer-suites.md` is written from it.
"""

import argparse
import datetime
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar, Final

import maven
import msgspec
import peer_suites_page
from apache_kafka import PROJECT, ApacheKafka
from broker_process import BrokerProcess
from kafka_client_tests import KafkaClients
from kafka_releases import REFERENCE
from peer_suite import Asked, Suite, output
from peer_suites_page import FAILED, PASSED, RESULTS, SKIPPED, Ran, Run
from toolchains import alone

LONGEST_S: Final = 1200
"""Of one test; its authors' runner gives the whole suite so long."""
TRIES: Final = 2
PROTOCOLS: Final = ("classic", "consumer")
SETTINGS: Final = {
    "num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.consumer.min.session.timeout.ms": "6000",
    "auto.create.topics.enable": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
"""What the suites ask of a broker (librdkafka's tests/broker_version_tests.py, franz-go's workflow)."""
KAFKA_ONLY: Final = {"share.coordinator.state.topic.num.partitions": "4", "unstable.api.versions.enable": "false"}

_GO_TESTS: Final = (
    "TestGroupETL|TestTxnEtl|TestShareGroup|TestGroupSimple|TestIssue|TestConsume|TestPause|TestDirect|TestAddRemove"
    "|TestPooling|TestHook"
)
_GO_LINE: Final = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)", re.MULTILINE)
_C_LINE: Final = re.compile(r"^\|\S* (\d{4}_\w+)\s+\|\s+(\w+) \|\s+([0-9.]+)s \S*\|(.*)", re.MULTILINE)
_C_FAILURE: Final = re.compile(r'### Test "(\d{4}_\w+)[^"]*" failed at .*###\s*\n(.*)')
_C_RUNNING: Final = re.compile(r"=== Running test (\d{4}_\w+) ===")
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_OUTCOMES: Final = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED, "PASSED": PASSED, "SKIPPED": SKIPPED}
_FILTERED: Final = "Filtered due to negative test flags"
"""It needs no broker."""
_LIBRARIES: Final = {"LD_LIBRARY_PATH": "../src:../src-cpp"}
_SHARE: Final = range(170, 200)
"""Numbers of librdkafka's tests of share groups, which know one protocol."""
_WITHOUT_BROKER: Final = re.compile(
    r"_mock|unittests|symbols|conf$|timers|api_version|bsearch|op_prio|ssl|oidc|sasl|auth|sockem"
)
_NEED_MORE: Final = {
    "0004": "needs no broker", "0021": "needs no broker", "0038": "measures", "0048": "needs no broker",
    "0066": "needs a plugin", "0101": "needs three brokers in racks", "0103": "needs three brokers",
    "0105": "needs no broker", "0109": "needs another shell script", "0152": "needs no broker",
}  # fmt: skip


def is_done(each: Ran) -> bool:
    """Whether a test needs no other try."""
    return each.outcome != FAILED or each.tries >= TRIES or each.test in peer_suites_page.EXPLANATIONS


@contextmanager
def broker(kind: str, folder: Path) -> Iterator[Asked]:
    """A fresh broker of a kind."""
    if kind == "kafka":
        with ApacheKafka(folder / "kafka", settings={**SETTINGS, **KAFKA_ONLY}, heap_mb=768) as kafka:
            yield Asked(kind, kafka.address)
        return
    with BrokerProcess(folder / "eosin", settings=SETTINGS) as eosin:
        yield Asked(kind, eosin.address)


class Checkout:
    """A suite whose sources lie in a folder."""

    starts_brokers: ClassVar[bool] = False

    def __init__(self, sources: Path | None) -> None:
        if sources is None:
            raise SystemExit("name the folder of the sources (SOURCES=path)")
        self._sources = sources

    @property
    def version(self) -> str:
        """Of the sources."""
        described = subprocess.run(
            ("git", "describe", "--tags", "--always"), cwd=self._sources, check=True, capture_output=True, text=True
        )
        return described.stdout.strip()

    def names(self) -> Sequence[str]:
        """All tests that are run."""
        raise NotImplementedError

    def again(self, failed: Sequence[str]) -> Sequence[str]:
        """The tests that these are parts of."""
        return [name for name in self.names() if any(each.startswith(name) for each in failed)]

    def left(self, names: Sequence[str], results: Mapping[str, Ran]) -> Sequence[str]:
        """Tests of which no part has come out, or one that is not done."""
        parts = {name: [each for each in results.values() if each.test.startswith(name)] for name in names}
        return [name for name in names if not parts[name] or not all(is_done(each) for each in parts[name])]

    def run(self, name: str, at: Asked, log: Path, done: Collection[str] = ()) -> Iterator[Ran]:
        """A test with all its parts."""
        raise NotImplementedError


class FranzGo(Checkout):
    """The tests of kgo that talk to a broker (KGO_SEEDS)."""

    def __init__(self, sources: Path | None, work: Path) -> None:
        super().__init__(sources)
        self._folder = self._sources / "pkg" / "kgo"
        self._program = work / "kgo.test"
        subprocess.run(("go", "test", "-c", "-o", str(self._program), "."), cwd=self._folder, check=True)

    def names(self) -> Sequence[str]:
        """All tests that are run, by their names."""
        listed = subprocess.run(
            (str(self._program), "-test.list", _GO_TESTS), cwd=self._folder, check=True, capture_output=True, text=True
        )
        return [each for each in listed.stdout.split() if each.startswith("Test")]

    def run(self, name: str, at: Asked, log: Path, done: Collection[str] = ()) -> Iterator[Ran]:
        """One test with its parts."""
        environment = {"KGO_SEEDS": at.address, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "50000"}
        command = (str(self._program), "-test.run", f"^{name}$", "-test.v", f"-test.timeout={LONGEST_S}s")
        text = output(command, self._folder, environment, log, killed_after_s=LONGEST_S)
        found = [match.groups() for match in _GO_LINE.finditer(text)]
        whole = [Ran(test, _OUTCOMES[outcome], float(seconds)) for outcome, test, seconds in found]
        parts = [each for each in whole if not any(other.test.startswith(f"{each.test}/") for other in whole)]
        yield from parts or [Ran(name, FAILED, float(LONGEST_S), "it came to no end")]


class Librdkafka(Checkout):
    """The numbered tests of librdkafka that talk to a broker, consumers by both protocols: in quick mode, as its
    authors run them for each change, but for those of share groups, of which that leaves nothing."""

    def __init__(self, sources: Path | None, work: Path) -> None:
        super().__init__(sources)
        self._folder = self._sources / "tests"
        self._work = work
        if not (self._folder / "test-runner").exists():
            subprocess.run(("./configure", "--disable-gssapi"), cwd=self._sources, check=True)
            subprocess.run(("make", "-j2", "libs"), cwd=self._sources, check=True)
            subprocess.run(("make", "-j2", "build"), cwd=self._folder, check=True)

        self._tools = work / "kafka"
        script = self._tools / "bin" / "kafka-topics.sh"
        script.parent.mkdir(parents=True, exist_ok=True)
        jars = maven.jars(PROJECT, REFERENCE)
        script.write_text(f'#!/bin/sh\nexec java -cp "{jars}/*" org.apache.kafka.tools.TopicCommand "$@"\n')
        script.chmod(0o755)

    def names(self) -> Sequence[str]:
        """All tests that are run, by numbers."""
        files = sorted(each.stem for each in self._folder.iterdir() if re.match(r"0\d{3}-.*\.(c|cpp)$", each.name))
        return [each[:4] for each in files if not _WITHOUT_BROKER.search(each) and each[:4] not in _NEED_MORE]

    def run(self, name: str, at: Asked, log: Path, done: Collection[str] = ()) -> Iterator[Ran]:
        """One test by each protocol that it knows."""
        config = self._work / f"{at.address.rpartition(':')[2]}.conf"
        config.write_text(f"bootstrap.servers={at.address}\ntest.topic.random=true\ntest.timeout.multiplier=4\n")
        protocols = ("",) if int(name) in _SHARE else PROTOCOLS
        for protocol in protocols:
            environment = {
                "TESTS": name,
                "RDKAFKA_TEST_CONF": str(config),
                "TEST_KAFKA_VERSION": REFERENCE,
                "KAFKA_PATH": str(self._tools),
                "BROKERS": at.address,
                **_LIBRARIES,
            }
            if protocol:
                environment["TEST_CONSUMER_GROUP_PROTOCOL"] = protocol
            command = ("./test-runner", "-p1", "-L", *(("-Q",) if protocol else ()))
            text = _COLOURS.sub("", output(command, self._folder, environment, log, killed_after_s=LONGEST_S))
            found = [match.groups() for match in _C_LINE.finditer(text)]
            suffix = f" {protocol}" if protocol else ""
            if not found:  # it ends by SIGABRT, and without its summary
                failed = dict(_C_FAILURE.findall(text))
                running = _C_RUNNING.findall(text) or [name]
                yield from [
                    Ran(f"{test}{suffix}", FAILED, 0.0, failed.get(test, "it came to no end")[:300])
                    for test in running
                    if test in failed or not failed
                ]
            yield from [
                Ran(f"{test}{suffix}", _OUTCOMES.get(state, FAILED), float(seconds), more.strip()[:300])
                for test, state, seconds, more in found
                if test.startswith(name) and _FILTERED not in more
            ]


SUITES: Final[Mapping[str, Callable[[Path | None, Path], Suite]]] = {
    "franz-go": FranzGo,
    "librdkafka": Librdkafka,
    "kafka": KafkaClients,
}


class Kept:
    """What came out of a suite at a broker: in its file as soon as it is known, so that a long run may be stopped, and
    two runs may share the suite."""

    def __init__(self, suite: str, version: str, kind: str) -> None:
        self._suite, self._version, self._kind = suite, version, kind
        self._file = RESULTS / f"{suite}-{kind}.json"
        self.results: dict[str, Ran] = {}
        self._read()

    def add(self, each: Ran) -> None:
        """Keep one outcome, and say it."""
        with self._changing():
            self.results[each.test] = each
        print(f"{self._kind:6} {each.outcome:7} {each.seconds:7.1f} s  {each.test}  {each.why}", flush=True)

    def drop(self, test: str) -> None:
        """Drop the outcome of one test, if it has one."""
        if test in self.results:
            with self._changing():
                self.results.pop(test, None)

    def forget(self, names: Sequence[str]) -> None:
        """Drop what these names had, and their parts."""
        with self._changing():
            self.results = {name: each for name, each in self.results.items() if not name.startswith(tuple(names))}

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Around a change: it is one of what the file has now, to which another run may have added."""
        with alone(f"peer-suites-{self._suite}-{self._kind}"):
            self._read()
            yield
            self._write()

    def _read(self) -> None:
        known = msgspec.json.decode(self._file.read_bytes(), type=Run).tests if self._file.exists() else []
        self.results = {each.test: each for each in known}

    def _write(self) -> None:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        tests = sorted(self.results.values(), key=lambda each: each.test)
        RESULTS.mkdir(parents=True, exist_ok=True)
        encoded = msgspec.json.encode(Run(self._suite, self._version, self._kind, today, tests))
        unfinished = self._file.with_suffix(".new")
        unfinished.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")
        unfinished.replace(self._file)


def ask(suite: Suite, names: Sequence[str], kind: str, log: Path, kept: Kept) -> None:
    """Run tests at a broker of a kind, but for those that are done; those that fail once more."""
    with tempfile.TemporaryDirectory(prefix="eosin-peer-suites-") as folder, ExitStack() as stack:
        at = Asked(kind, "") if suite.starts_brokers else stack.enter_context(broker(kind, Path(folder)))
        for name in suite.left(names, kept.results):
            done = [each.test for each in kept.results.values() if is_done(each)]
            kept.drop(name)  # that a class came to no end is no result of its tests
            failed: list[str] = []
            for each in suite.run(name, at, log, done):
                known = kept.results.get(each.test)
                kept.add(each if known is None else msgspec.structs.replace(each, tries=TRIES))
                failed += [each.test] if not is_done(kept.results[each.test]) else []
            for again in suite.again(failed):
                kept.drop(again)
                done = [each.test for each in kept.results.values() if is_done(each)]
                for each in suite.run(again, at, log, done):
                    if each.test not in done:
                        kept.add(msgspec.structs.replace(each, tries=TRIES))


def main() -> int:
    """Run a suite at both brokers; 1 if what passes at Apache Kafka fails at Eosin for no reason that is told."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", choices=sorted(SUITES))
    parser.add_argument("sources", type=Path, nargs="?", help="a checkout of the client's sources, unless it is kafka")
    parser.add_argument("--only", default="", help="these tests, by the beginnings of their names: A,B")
    parser.add_argument("--broker", action="append", choices=("eosin", "kafka"), help="by default both")
    parser.add_argument("--missing", action="store_true", help="go on: what has no result yet, or failed only once")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what a test has started ends with it
    work = Path("build", "peer-suites", options.suite).resolve()
    work.mkdir(parents=True, exist_ok=True)
    suite = SUITES[options.suite](options.sources and options.sources.resolve(), work)
    wanted = tuple(each for each in options.only.split(",") if each)
    names = [each for each in suite.names() if not wanted or each.startswith(wanted)]
    for kind in options.broker or ("eosin", "kafka"):
        kept = Kept(options.suite, suite.version, kind)
        if not options.missing:
            kept.forget(names if wanted else [""])
        ask(suite, names, kind, work / f"{kind}.log", kept)
    peer_suites_page.PAGE.write_text(peer_suites_page.page())
    unexplained = peer_suites_page.unexplained()
    print("\n".join(f"no reason is known for {each}" for each in unexplained))
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
