"""Apache Kafka's own tests of its clients, groups and transactions, as a suite of `peer_suites.py`.

They come from Maven, compiled, of the latest release that has them there, and run with the clients of that release; at
Apache Kafka with its broker, too. Each test names a cluster in an annotation, and Kafka's extension of JUnit starts it
in the test's own process. For Eosin the one class of that extension which does so is ours (`java/kafka-client-tests`):
it starts an Eosin with the settings and features of the annotation, or a lab's with nodes where it is to be several
brokers. At Apache Kafka nothing is ours but what says how each test ended. Each class of tests has a JVM of its own.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

import maven
import toolchains
from peer_suite import Asked, output
from peer_suites_page import FAILED, PASSED, SKIPPED, Ran

PROJECT: Final = "kafka-client-tests"
LONGEST_S: Final = 3600
"""Of one class of tests."""
_SOURCES: Final = Path(__file__).parent / "java" / PROJECT
_RUNNER: Final = "RunTests"
_CLUSTER: Final = ("RaftClusterInvocationContext", "EosinCluster", "OutsideBroker", "Stand")
_LINE: Final = re.compile(r"^## (PASS|FAIL|SKIP)\t([0-9.]+)\t([^\t]+)\t(.*)$", re.MULTILINE)
_OUTCOMES: Final = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
_AGAIN: Final = "as with controllers of their own"
"""What a test says that differs from another one only by where Apache Kafka's controllers run."""
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-Dhttp.keepAlive=false")

_CLIENTS: Final = "org.apache.kafka.clients"
CLASSES: Final = (
    *(
        f"{_CLIENTS}.{name}"
        for name in (
            "TransactionsExpirationTest",
            "TransactionsWithMaxInFlightOneTest",
            "consumer.ConsumerBounceTest",
            "consumer.ConsumerIntegrationTest",
            "consumer.PlaintextConsumerAssignTest",
            "consumer.PlaintextConsumerCallbackTest",
            "consumer.PlaintextConsumerCloseTest",
            "consumer.PlaintextConsumerCommitTest",
            "consumer.PlaintextConsumerFetchTest",
            "consumer.PlaintextConsumerPollTest",
            "consumer.PlaintextConsumerSubscriptionTest",
            "consumer.PlaintextConsumerTest",
            "consumer.ShareConsumerTest",
            "admin.AdminFenceProducersTest",
            "admin.DescribeProducersWithBrokerIdTest",
            "admin.DynamicGroupConfigIntegrationTest",
            "admin.ListOffsetsIntegrationTest",
            "producer.ProducerIdExpirationTest",
            "producer.ProducerIntegrationTest",
            "security.GroupAuthorizerIntegrationTest",
        )
    ),
    *(
        f"kafka.server.{name}RequestTest"
        for name in (
            *("OffsetCommit", "OffsetFetch", "OffsetDelete", "TxnOffsetCommit", "WriteTxnMarkers"),
            *("JoinGroup", "SyncGroup", "LeaveGroup", "ListGroups", "DescribeGroups", "DeleteGroups"),
            *("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
            *("ShareGroupHeartbeat", "ShareGroupDescribe", "ShareFetchAcknowledge"),
            *("StreamsGroupHeartbeat", "StreamsGroupDescribe"),
        )
    ),
    "kafka.server.ConsumerProtocolMigrationTest",
)
"""Those of groups and transactions, and their neighbours: through clients, and one request at a time."""


class KafkaClients:
    """The tests of `CLASSES`, which start their brokers themselves."""

    starts_brokers: ClassVar[bool] = True

    def __init__(self, sources: Path | None, work: Path) -> None:
        self._work = work
        self._java = maven.java("Apache Kafka's tests")
        self._jars = maven.jars(PROJECT)
        self._runner = _compiled("runner", (_RUNNER,), self._jars)
        self._cluster = _compiled("cluster", _CLUSTER, self._jars)

    @property
    def version(self) -> str:
        """The release that the tests are of."""
        return maven.version(PROJECT)

    def names(self) -> Sequence[str]:
        """Classes, without their packages."""
        return [each.rpartition(".")[2] for each in CLASSES]

    def again(self, failed: Sequence[str]) -> Sequence[str]:
        """What to run for tests to be run once more: their methods."""
        return list(dict.fromkeys("#".join(each.split()[:2]) for each in failed))

    def run(self, name: str, at: Asked, log: Path) -> list[Ran]:
        """The tests of a class, or of one of its methods as Class#method."""
        simple, method, rest = name.partition("#")
        whole = next(each for each in CLASSES if each.rpartition(".")[2] == simple)
        temporary = self._work / "tmp"
        temporary.mkdir(exist_ok=True)
        path = [*([str(self._cluster)] if at.kind == "eosin" else []), str(self._runner), f"{self._jars}/*"]
        command = [self._java, *_JVM, f"-Deosin.python={sys.executable}", maven.temporary(temporary)]
        command += ["-cp", ":".join(path), "RunTests", f"{whole}{method}{rest}"]
        text = output(command, self._work, {}, log, killed_after_s=LONGEST_S)
        return ended(text) or [Ran(simple, FAILED, 0.0, "it came to no end")]


def ended(said: str) -> list[Ran]:
    """The tests that the runner has told the end of, without those that are others again."""
    found = [match.groups() for match in _LINE.finditer(said)]
    return [
        Ran(test, _OUTCOMES[outcome], float(seconds), why[:300])
        for outcome, seconds, test, why in found
        if why != _AGAIN
    ]


def _compiled(name: str, files: Sequence[str], jars: Path) -> Path:
    """A folder with the classes of programs of ours."""
    sources = [_SOURCES / f"{each}.java" for each in files]

    def make(folder: Path) -> None:
        compiler = toolchains.tool("javac", "Apache Kafka's tests")
        subprocess.run((compiler, "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources)), check=True)

    return toolchains.made(f"{PROJECT}-{name}", [*sources, str(jars)], make)
