"""Apache Kafka's own tests of its clients, groups and transactions, as a suite of `peer_suites.py`.

They come from Maven, compiled, of the latest release that has them there, and run with the clients of that release; at
Apache Kafka with its broker, too. Each test names a cluster in an annotation, and Kafka's extension of JUnit starts it
in the test's own process. For Eosin the one class of that extension which does so is ours (`java/kafka-client-tests`):
it starts an Eosin with the settings and features of the annotation, or a lab's with nodes where it is to be several
brokers; for what is in `JOINED` as many Eosins, which join a controller of Apache Kafka's. So it is for tests in
Scala, which inherit their brokers. At Apache Kafka nothing is ours but what says how each test ended. Each class of
tests has a JVM of its own.
"""

import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

import maven
import toolchains
from peer_suite import Asked, lines
from peer_suites_page import FAILED, PASSED, SKIPPED, Ran

PROJECT: Final = "kafka-client-tests"
LONGEST_S: Final = 3600
"""Of one class of tests."""
_SOURCES: Final = Path(__file__).parent / "java" / PROJECT
_RUNNER: Final = "RunTests"
_EXTENSION: Final = "org.junit.jupiter.api.extension.Extension"
_CLUSTER: Final = (
    *("RaftClusterInvocationContext", "QuorumTestHarness", "EosinCluster", "HarnessCluster"),
    *("EosinProcess", "JoinedBrokers", "OutsideBroker", "OutsideController", "OutsideLogs", "Stand"),
)
_LINE: Final = re.compile(r"## (PASS|FAIL|SKIP)\t([0-9.]+)\t([^\t]*)\t(.*)\n")
_END: Final = "## END"
_OUTCOMES: Final = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
_AGAIN: Final = "as with controllers of their own"
"""What a test says that differs from another one only by where Apache Kafka's controllers run."""
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-Dhttp.keepAlive=false")

_PACKAGES: Final[Mapping[str, Sequence[str]]] = {
    "kafka.api": ("TransactionsTest", "TransactionsBounceTest"),
    "org.apache.kafka.clients": ("TransactionsExpirationTest", "TransactionsWithMaxInFlightOneTest"),
    "org.apache.kafka.clients.producer": (
        *("ProducerIdExpirationTest", "ProducerIntegrationTest", "ProducerFailureHandlingTest"),
        *("ProducerSendWhileDeletionTest", "ProducerCompressionTest"),
    ),
    "kafka.server": (
        *("AddPartitionsToTxnRequestServerTest", "TxnOffsetCommitRequestTest", "WriteTxnMarkersRequestTest"),
        *("OffsetCommitRequestTest", "OffsetFetchRequestTest", "OffsetDeleteRequestTest", "HeartbeatRequestTest"),
        *("JoinGroupRequestTest", "SyncGroupRequestTest", "LeaveGroupRequestTest", "ListGroupsRequestTest"),
        *("DescribeGroupsRequestTest", "DeleteGroupsRequestTest", "OffsetsForLeaderEpochRequestTest"),
        *("ConsumerGroupHeartbeatRequestTest", "ConsumerGroupDescribeRequestTest", "ConsumerProtocolMigrationTest"),
        *("StreamsGroupHeartbeatRequestTest", "StreamsGroupDescribeRequestTest"),
        *("ShareGroupHeartbeatRequestTest", "ShareGroupDescribeRequestTest", "ShareFetchAcknowledgeRequestTest"),
    ),
    "org.apache.kafka.clients.admin": (
        *("AdminFenceProducersTest", "DescribeProducersWithBrokerIdTest", "DynamicGroupConfigIntegrationTest"),
        *("ListOffsetsIntegrationTest", "ConcurrentListOffsetsRequestTest"),
    ),
    "org.apache.kafka.clients.security": ("GroupAuthorizerIntegrationTest",),
    "org.apache.kafka.clients.consumer": (
        *("ConsumerBounceTest", "ConsumerIntegrationTest", "PlaintextConsumerCommitTest"),
        *("PlaintextConsumerSubscriptionTest", "PlaintextConsumerCallbackTest", "PlaintextConsumerPollTest"),
        *("PlaintextConsumerFetchTest", "PlaintextConsumerAssignTest", "PlaintextConsumerCloseTest"),
        *("PlaintextConsumerTest", "ShareConsumerTest", "SaslPlainPlaintextConsumerTest"),
    ),
}
CLASSES: Final = {name: f"{package}.{name}" for package, names in _PACKAGES.items() for name in names} | {
    f"{name}Test": f"kafka.api.{name}Test"
    for name in (
        "PlaintextConsumerAssignors",
        "PlaintextProducerSend",
        "PlaintextAdminIntegration",
    )
}
"""Those of groups and transactions, and their neighbours, through clients and one request at a time: with their
packages, those whose outcomes are worth most first."""
_JOINED: Final[Mapping[str, Sequence[str]]] = {
    "AddPartitionsToTxnRequestServerTest": (),
    "DescribeProducersWithBrokerIdTest": (),
    "ProducerFailureHandlingTest": (),
    "ProducerSendWhileDeletionTest": (),
    "ListOffsetsIntegrationTest": (),
    "OffsetsForLeaderEpochRequestTest": (),
    "PlaintextAdminIntegrationTest": (),
    "TransactionsTest": (
        *("testBumpTransactionalEpochWithTV2Disabled", "testBumpTransactionalEpochWithTV2Enabled"),
        "testFailureToFenceEpoch",
    ),
    "ConsumerIntegrationTest": (
        *("testRackAwareAssignment", "testSingleCoordinatorOwnershipAfterPartitionReassignment"),
    ),
    "OffsetFetchRequestTest": ("testGroupErrors",),
    "PlaintextProducerSendTest": ("testSendToPartitionWithFollowerShutdownShouldNotTimeout",),
    "ShareConsumerTest": (
        *("testSharePartitionLagOnGroupCoordinatorMovement", "testSharePartitionLagOnShareCoordinatorMovement"),
        *("testShareConsumerAfterCoordinatorMovement", "testComplexShareConsumer"),
    ),
    "ShareFetchAcknowledgeRequestTest": (
        *("testShareFetchRequestToNonLeaderReplica", "testShareFetchRequestSuccessMultiplePartitionsMultipleBrokers"),
    ),
    "PlaintextConsumerTest": ("testClassicConsumerListTopics", "testAsyncConsumerListTopics"),
    "StreamsGroupHeartbeatRequestTest": ("testStreamsGroupHeartbeatIsInaccessibleWhenOffsetTopicNotExist",),
}
JOINED: Final = frozenset(
    "#".join(each) for name, methods in _JOINED.items() for each in [(name, method) for method in methods] or [(name,)]
)
"""The classes, and methods of other ones as Class#method, that ask what replicas of their own have, or that topics of
the coordinators are not there yet: they get brokers that have joined a controller."""


class KafkaClients:
    """The tests of `CLASSES`, which start their brokers themselves."""

    starts_brokers: ClassVar[bool] = True

    def __init__(self, sources: Path | None, work: Path) -> None:
        self._work = work
        self._java = maven.java("Apache Kafka's tests")
        self._jars = maven.jars(PROJECT)
        self._runner = _compiled("runner", (_RUNNER,), self._jars, {_EXTENSION: _RUNNER})
        self._cluster = _compiled("cluster", _CLUSTER, self._jars)

    @property
    def version(self) -> str:
        """The release that the tests are of."""
        return maven.version(PROJECT)

    def names(self) -> Sequence[str]:
        """Classes, without their packages, and before them those of their methods that want other brokers."""
        return [*sorted(each for each in JOINED if "#" in each), *CLASSES]

    def left(self, names: Sequence[str], results: Mapping[str, Ran]) -> Sequence[str]:
        """All of them: what tests a class has, only its JVM knows."""
        return names

    def again(self, failed: Sequence[str]) -> Sequence[str]:
        """What to run for tests to be run once more: their methods."""
        return list(dict.fromkeys("#".join(each.split()[:2]) for each in failed))

    def run(self, name: str, at: Asked, log: Path, done: Collection[str] = ()) -> Iterator[Ran]:
        """The tests of a class, or of one of its methods as Class#method, in the order in which they end."""
        simple, method, rest = name.partition("#")
        temporary = self._work / "tmp"
        temporary.mkdir(exist_ok=True)
        path = [*([str(self._cluster)] if at.kind == "eosin" else []), str(self._runner), f"{self._jars}/*"]
        command = [self._java, *_JVM, f"-Deosin.python={sys.executable}", maven.temporary(temporary)]
        command += ["-Deosin.joined=true"] if JOINED & {name, simple} else []
        command += ["-cp", ":".join(path), _RUNNER, f"{CLASSES[simple]}{method}{rest}"]
        command += sorted(f"-{each}" for each in done if each.startswith(f"{simple} "))
        yield from ended(lines(command, self._work, {}, log, killed_after_s=LONGEST_S), name)


def ended(said: Iterable[str], name: str) -> Iterator[Ran]:
    """The tests of a name that the runner tells the end of, without those that are others again; one that fails if it
    has not come to its own end, or whose tests cannot be looked for."""
    for line in said:
        if line.startswith(_END):
            return
        found = _LINE.fullmatch(line)
        if found is not None and found[4] != _AGAIN:
            yield Ran(found[3] or name.replace("#", " "), _OUTCOMES[found[1]], float(found[2]), found[4][:300])
    yield Ran(name.replace("#", " "), FAILED, 0.0, "it came to no end")


def _compiled(name: str, files: Sequence[str], jars: Path, services: Mapping[str, str] | None = None) -> Path:
    """A folder with the classes of programs of ours, and with the classes that are found as `services`."""
    sources = [_SOURCES / f"{each}.java" for each in files]

    def make(folder: Path) -> None:
        compiler = toolchains.tool("javac", "Apache Kafka's tests")
        subprocess.run((compiler, "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources)), check=True)
        for service, found in (services or {}).items():
            file = folder / "META-INF" / "services" / service
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found)

    return toolchains.made(f"{PROJECT}-{name}", [*sources, str(jars), str(services)], make)
