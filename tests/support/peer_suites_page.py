"""Renders `docs/testing/peer-suites.md` from `tests/peer_suites/results`: `make docs`, and `make peer-suites`."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from kafka_releases import REFERENCE

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "testing" / "peer-suites.md"
RESULTS: Final = ROOT / "tests" / "peer_suites" / "results"
SUITE_NAMES: Final = ("franz-go", "librdkafka", "kafka")
BROKERS: Final = ("eosin", "kafka")
PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"


def _each(test: str, invocations: int, why: str) -> dict[str, str]:
    """The reason for all invocations of a test."""
    return {f"{test} {number + 1}": why for number in range(invocations)}


_HASH_MAP: Final = "It expects the order in which Apache Kafka's hash map has groups or members."
_SENTENCE: Final = (
    "It expects 35 UNSUPPORTED_VERSION without words: Eosin's sentence names the feature or the setting, and the way "
    "out."
)
_INTERVAL: Final = (
    "It races the interval between two assignments: at this line one with dynamic members fails at Apache Kafka, too."
)
_EPOCHS: Final = (
    "It counts group epochs: Eosin has initialized the partitions within the heartbeat that finds them, which begins "
    "one more."
)
_LATE: Final = (
    "It expects that a producer whose transaction has timed out is fenced: Eosin tells it that the transaction was "
    "aborted, and it goes on."
)
_METRICS: Final = "It reads the metrics of a broker in its own process."
_ZEROS: Final = (
    "It writes over a log's file while the broker runs. Apache Kafka reads the batch's header as it looks for the "
    "offset, and says CORRUPT_MESSAGE; Eosin sends the file's bytes as they are, and the consumer finds the damage."
)
_PORTIONS: Final = (
    "Of records that failed often Eosin hands out ever smaller parts of those that are left together, Apache Kafka of "
    "the batch that they came in: the counts differ from the second part on."
)
_MARKERS: Final = "It waits for acknowledgements of markers: Eosin hands out none, and has nobody acknowledge them."
_LOGGERS: Final = "It changes the levels of Apache Kafka's loggers, which need a library that this run is without."
_LOCALHOST: Final = "It expects its brokers at `localhost`: those that are started for it are at 127.0.0.1."
_ONE_DIRECTORY: Final = "It moves partitions between directories of a broker: Eosin has one."
EXPLANATIONS: Final[Mapping[str, str]] = {
    "0081_admin classic": (
        "It deletes groups six seconds after static members went whose sessions are of six seconds: it races their end."
    ),
    **_each("TransactionsTest testFencingOnTransactionExpiration", 2, _LATE),
    "0172_share_consumer_acknowledge": (
        "It expects that neither of two members has read all records before the other one has joined: Eosin gives "
        "partitions with the answer to the first heartbeat, Apache Kafka with a later one."
    ),
    "0179_share_consumer_destroy": (
        "It expects that the first fetch brings the records of one of two partitions: Eosin answers with both."
    ),
    "OffsetFetchRequestTest testGroupErrors 1": (
        "It expects an error of the group without partitions: Eosin repeats it at each: aiokafka reads only those."
    ),
    "ListGroupsRequestTest testListGroupsWithNewConsumerGroupProtocol 1": _HASH_MAP,
    "ConsumerGroupDescribeRequestTest testConsumerGroupDescribeWithNewGroupCoordinator 1": _HASH_MAP,
    "ConsumerGroupDescribeRequestTest testConsumerGroupDescribeWhenFeatureFlagNotEnabled 1": _SENTENCE,
    "ConsumerGroupHeartbeatRequestTest testConsumerGroupHeartbeatIsInaccessibleWhenFeatureFlagNotEnabled 1": _SENTENCE,
    "ConsumerGroupHeartbeatRequestTest testConsumerGroupHeartbeatIsInaccessibleWhenDisabledByStaticConfig 1": _SENTENCE,
    "ConsumerProtocolMigrationTest testOnlineMigrationWithEagerAssignmentStrategyAndDynamicMembers 1": _INTERVAL,
    "ConsumerProtocolMigrationTest testOnlineMigrationWithEagerAssignmentStrategyAndStaticMembers 1": _INTERVAL,
    "ShareGroupDescribeRequestTest testShareGroupDescribeIsInAccessibleWhenConfigsDisabled 1": _SENTENCE,
    "ShareGroupHeartbeatRequestTest testShareGroupHeartbeatIsInAccessibleWhenConfigsDisabled 1": _SENTENCE,
    "ShareGroupHeartbeatRequestTest testGroupCoordinatorChange 1": _EPOCHS,
    "ShareGroupHeartbeatRequestTest testMemberLeavingAndRejoining 1": _EPOCHS,
    "ShareGroupHeartbeatRequestTest testPartitionAssignmentWithChangingTopics 1": _EPOCHS,
    "ShareGroupHeartbeatRequestTest testShareGroupHeartbeatIsAccessibleWhenShareGroupIsEnabled 1": _EPOCHS,
    "ShareGroupHeartbeatRequestTest testShareGroupHeartbeatWithMultipleMembers 1": _EPOCHS,
    **dict.fromkeys(
        (
            "PlaintextAdminIntegrationTest testDescribeConfigsForLog4jLogLevels",
            "PlaintextAdminIntegrationTest testIncrementalAlterConfigsForLog4jLogLevels",
            "PlaintextAdminIntegrationTest testIncrementalAlterConfigsForLog4jLogLevelsCanResetLoggerToCurrentRoot",
            "PlaintextAdminIntegrationTest testIncrementalAlterConfigsForLog4jLogLevelsDoesNotWorkWithInvalidConfigs",
        ),
        _LOGGERS,
    ),
    "PlaintextAdminIntegrationTest testListNodes": _LOCALHOST,
    "PlaintextAdminIntegrationTest testDescribeCluster": _LOCALHOST,
    **_each("PlaintextAdminIntegrationTest testAlterReplicaLogDirs", 2, _ONE_DIRECTORY),
    "PlaintextAdminIntegrationTest testLongTopicNames": _ONE_DIRECTORY,
    "PlaintextAdminIntegrationTest testDescribeTransactions": (
        "It expects producer id 0 of whichever broker coordinates: each Eosin has asked for a block of ids by then."
    ),
    "PlaintextAdminIntegrationTest testListTransactions": (
        "It finds transactions that are over by how long ago they began: Eosin's filter finds what is open for so long."
    ),
    "PlaintextAdminIntegrationTest testAlterLogDirsAfterDeleteRecords": _ONE_DIRECTORY,
    "ShareConsumerTest testDescribeShareGroupOffsetsForEmptySharePartition 1": (
        "It expects no offset for a group that has read nothing: Eosin stores where a group begins before it reads."
    ),
    "ShareConsumerTest testFetchWithThrottledDelivery 1": _PORTIONS,
    "ShareConsumerTest testFetchWithThrottledDeliveryBatchesWithIncreasedDeliveryLimit 1": _PORTIONS,
    "ShareConsumerTest testFetchWithThrottledDeliveryValidateDeliveryCount 1": _PORTIONS,
    "ShareConsumerTest testAlterReadCommittedToReadUncommittedIsolationLevelWithReleaseAck 1": _MARKERS,
    "ShareConsumerTest testAlterReadCommittedToReadUncommittedIsolationLevelWithRejectAck 1": _MARKERS,
    "ShareConsumerTest testRenewAcknowledgementInvalidStateRecord 1": _METRICS,
    "PlaintextAdminIntegrationTest testCreateTopicsReturnsConfigs": (
        "It waits for a change to show in Apache Kafka's own objects (KafkaBroker.config)."
    ),
    "PlaintextAdminIntegrationTest testDescribeAndAlterConfigs": (
        "It counts the settings that a broker describes: Eosin tells those that it has."
    ),
    "PlaintextAdminIntegrationTest testDeleteRecordsAfterCorruptRecords 1": _ZEROS,
    "PlaintextAdminIntegrationTest testDeleteRecordsAfterCorruptRecords 2": _ZEROS,
    "ShareConsumerTest testRenewAcknowledgementNoResultInPoll 1": _METRICS,
    "ShareConsumerTest testRenewAcknowledgementOnCommitSync 1": _METRICS,
    "ShareConsumerTest testRenewAcknowledgementOnPoll 1": _METRICS,
    "ConsumerProtocolMigrationTest testOnlineMigrationWithCooperativeAssignmentStrategyAndStaticMembers 1": _INTERVAL,
    "PlaintextConsumerTest testAsyncConsumerCloseLeavesGroupOnInterrupt 1": (
        "It fails now and then, of a dozen runs at Eosin two: Apache Kafka marks it so, too (KAFKA-18031)."
    ),
    "StreamsGroupDescribeRequestTest testStreamsGroupDescribeWhenFeatureFlagNotEnabled 1": _SENTENCE,
    "StreamsGroupHeartbeatRequestTest testInternalTopicsCreation 1": (
        "It expects the first group epoch with tasks after the topics' creation: Eosin creates them within the "
        "heartbeat, which begins one more."
    ),
    "StreamsGroupHeartbeatRequestTest testDynamicGroupConfig 1": (
        "It says that members have no tasks any more and takes the next list for a new one: Eosin repeats the old one "
        "at once, as after a lost answer."
    ),
    "StreamsGroupHeartbeatRequestTest testFencedMemberCanRejoinWithEpochZero 1": (
        "It compares whole answers: Eosin's have `taskOffsetIntervalMs`, as those of 4.4, and an epoch of endpoints."
    ),
    "StreamsGroupHeartbeatRequestTest testStreamsGroupHeartbeatIsInaccessibleWhenDisabledByFeatureConfig 1": _SENTENCE,
    "StreamsGroupHeartbeatRequestTest"
    " testStreamsGroupHeartbeatIsInaccessibleWhenDisabledByStaticGroupCoordinatorProtocolConfig 1": _SENTENCE,
}
"""Why a test that passes at Apache Kafka fails at Eosin, by its name."""

_INTRODUCTION: Final = f"""\
# Other projects' tests

What the authors of a client hold to be true of a broker, asked of Eosin and of Apache Kafka {REFERENCE}: their own
tests, unchanged, one broker, each test in a process of its own. A test that fails runs once more, since these tests
race real time, unless the reason is known. librdkafka's run in its quick mode, those of share groups whole.
`make peer-suites SUITE=franz-go SOURCES=path` runs a suite from a checkout of its sources, and writes this page.

Those of Apache Kafka for groups and transactions (`SUITE=kafka`) come from Maven, which has them up to 4.3.1: they run
with clients and a broker of that release. Each starts a cluster of its own, with its settings and features. Where it
asks for several brokers it gets one process of Eosin [with nodes](../nodes.md), or, in classes that look at replicas,
as many Eosins that [join](../cluster.md) a controller of Apache Kafka; where it asks for what only a broker in its own
process has, or brings a broker's own plug-in along, it leaves itself out. A number behind a test is that of its
cluster's settings. The row has those tests that were run at both brokers; `ARGS=--missing` goes on with the others.
"""


class Ran(msgspec.Struct, frozen=True, omit_defaults=True):
    """One test with what came out."""

    test: str
    outcome: str
    seconds: float
    why: str = ""
    """What the test said of its failure, or of its leaving out."""
    tries: int = 1


class Run(msgspec.Struct, frozen=True):
    """One suite at one broker."""

    suite: str
    version: str
    """Of the sources."""
    broker: str
    date: str
    tests: list[Ran]


def runs() -> dict[tuple[str, str], Run]:
    """The runs that are kept, by suite and broker."""
    files = {(suite, kind): RESULTS / f"{suite}-{kind}.json" for suite in SUITE_NAMES for kind in BROKERS}
    return {name: msgspec.json.decode(file.read_bytes(), type=Run) for name, file in files.items() if file.exists()}


def unexplained() -> list[str]:
    """Tests that pass at Apache Kafka and fail at Eosin for no reason that is told."""
    kept = runs()
    return [
        each.test
        for suite in SUITE_NAMES
        if (suite, "eosin") in kept and (suite, "kafka") in kept
        for each in kept[suite, "eosin"].tests
        if each.outcome == FAILED and each.test not in EXPLANATIONS
        and any(other.test == each.test and other.outcome == PASSED for other in kept[suite, "kafka"].tests)
    ]  # fmt: skip


def page() -> str:
    """The page as it is to be."""
    return "\n".join((_INTRODUCTION, *_table(), *_failures(), *_skipped(), *_one_sided(), *_unasked()))


def _table() -> Iterator[str]:
    yield f"| suite | Eosin: passed of run | Apache Kafka {REFERENCE}: passed of run | at the second try | run on |"
    yield "|---|---|---|---|---|"
    kept = runs()
    for suite in SUITE_NAMES:
        found = [kept[suite, kind] for kind in BROKERS if (suite, kind) in kept]
        if len(found) == len(BROKERS):
            tests = [_by_test(run) for run in found]
            both = [[each for name, each in mine.items() if all(name in other for other in tests)] for mine in tests]
            passed = [f"{_count(mine, PASSED)} of {len(mine) - _count(mine, SKIPPED)}" for mine in both]
            again = [str(sum(each.outcome == PASSED and each.tries > 1 for each in mine)) for mine in both]
            version = f"{suite} {found[0].version}"
            yield f"| {version} | {passed[0]} | {passed[1]} | {' and '.join(again)} | {found[0].date} |"
    yield ""


def _one_sided() -> Iterator[str]:
    """Tests with a result at one broker alone: how many of each class or file there are. Some run at Apache Kafka once
    more, with controllers of their own: for Eosin they are no other ones."""
    kept = runs()
    rows = []
    for suite in SUITE_NAMES:
        here, there = (_by_test(kept.get((suite, kind))) for kind in BROKERS)
        known = {_method(name) for name in here}
        only_here = Counter(name.split()[0] for name in here if name not in there)
        only_there = Counter(name.split()[0] for name in there if name not in here and _method(name) not in known)
        rows += [
            f"| {suite} {name} | {only_here[name]} | {only_there[name]} |" for name in sorted(only_here | only_there)
        ]
    if rows:
        yield "## What has a result at one of them alone\n\n| tests of | Eosin | Apache Kafka |\n|---|---|---|"
        yield from rows
        yield ""


def _unasked() -> Iterator[str]:
    """Classes of Apache Kafka's that the suite can take, and that have no result at both brokers."""
    from kafka_client_tests import CLASSES  # which knows this module

    kept = runs()
    results = [_by_test(kept.get(("kafka", kind))) for kind in BROKERS]
    asked = {name.split()[0] for name in results[0] if name in results[1]}
    if missing := [name for name in CLASSES if name not in asked]:
        yield "## What has no result yet\n"
        yield f"Of Apache Kafka's classes: {', '.join(missing)}."
        yield ""


def _method(test: str) -> str:
    return test.rstrip("0123456789").rstrip()


def _count(tests: Sequence[Ran], outcome: str) -> int:
    return sum(each.outcome == outcome for each in tests)


def _failures() -> Iterator[str]:
    kept = runs()
    rows = []
    for suite in SUITE_NAMES:
        outcomes = {kind: _by_test(kept.get((suite, kind))) for kind in BROKERS}
        for test in sorted(set(outcomes["eosin"]) | set(outcomes["kafka"])):
            found = [outcomes[kind].get(test) for kind in BROKERS]
            if any(each is not None and each.outcome == FAILED for each in found):
                said = next((each.why for each in found if each is not None and each.outcome == FAILED), "")
                cells = [each.outcome if each is not None else "-" for each in found]
                why = EXPLANATIONS.get(test) or said
                rows.append(f"| {suite} {test} | {cells[0]} | {cells[1]} | {_cell(why)} |")
    if rows:
        yield "## What fails\n\n| test | Eosin | Apache Kafka | why |\n|---|---|---|---|"
        yield from rows
        yield ""


def _skipped() -> Iterator[str]:
    rows = []
    for (suite, kind), run in runs().items():
        if kind == "eosin":
            rows += [f"| {suite} {each.test} | {_cell(each.why)} |" for each in run.tests if each.outcome == SKIPPED]
    if rows:
        yield "## What leaves itself out\n\n| test | why |\n|---|---|"
        yield from rows
        yield ""


def _by_test(run: Run | None) -> dict[str, Ran]:
    return {each.test: each for each in run.tests} if run is not None else {}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    PAGE.write_text(page())
