"""Incidents at the end of a transaction: requests and answers that are lost, late, or in the wrong order."""

from typing import Final

from eosin.lab.broker_api import BrokerApi
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import deadline_passes, fired, on_api, on_end, on_write
from eosin.lab.verdict.findings import LOST, OPEN, TORN

_AWAY_MS: Final = 100
_LOADING_MS: Final = 200
"""As long as a coordinator takes that moves in a cluster at rest."""


def lost_commit_response(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A transaction is committed, and the application is not told.

    Origin: Jepsen's report on Bufstream (2024), and the commit gap of KAFKA#22860.

    Steps: The broker executes EndTxn(commit); its answer is lost with the connection.

    Healthy: It commits once more, is told NONE, and goes on with the next transaction; nothing is done again.

    Cure: Treat a commit without an answer as neither done nor failed: call commit again on the same producer, or build
    new one and go on from the committed offsets.
    """
    with on_end(eosin).lose("answer") as rule:
        app.feed()
        fired(rule, "EndTxn")
    return None


def lost_commit_request(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A commit is lost before the broker has it.

    Origin: Jepsen's report on Bufstream (2024).

    Steps: The connection is reset when EndTxn(commit) arrives, which is not executed.

    Healthy: It sends the commit again; there is one commit.

    Cure: As for lost-commit-answer: an application cannot tell these two apart, and need not.
    """
    with on_end(eosin).lose("request") as rule:
        app.feed()
        fired(rule, "EndTxn")
    return None


def stalled_commit(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A commit is executed, and its answer does not come for seconds.

    Origin: KAFKA#6066 and confluent-kafka-dotnet#1533.

    Steps: The answer to EndTxn(commit) stalls, for three seconds or until the client asks again.

    Healthy: It knows the outcome before it begins the next transaction.

    Cure: Never begin a transaction while the outcome of the last one is open: commit again until there is an answer,
    and keep the timeout of that call above the client's request timeout.
    """
    with on_end(eosin).lose("answer", "stall") as rule:
        app.feed()
        fired(rule, "EndTxn")
        app.commits(2, timeout=3)
        rule.release()
    return None


def delayed_endtxn(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The network keeps a commit, and delivers it in the middle of the next transaction.

    Origin: Jepsen's report on Bufstream (2024); KIP-890 is the cure in the protocol.

    Steps: EndTxn(commit) takes a detour: its connection is reset, and it is executed behind the first write of the next
    transaction.

    Healthy: Under TV2 it loses nothing, since each transaction has an epoch of its own. Under TV1 no application can
    help it: what is torn or lost there is in the report, and does not fail it.

    Cure: A client that speaks TV2. Under TV1: after a commit that had no answer in time, call init_transactions again
    before the next transaction, which makes the late commit one of an old epoch.
    """
    with on_end(eosin).detour({"api": "Produce", "topic": app.outputs[0]}) as rule:
        app.feed(max(1, app.left // 2))
        fired(rule, "EndTxn")
        app.commits(timeout=5)
        app.feed()
        app.catches_up(timeout=5)
    if eosin.history.requests("AddPartitionsToTxn"):
        said = "the client speaks TV1, where a late commit ends the next transaction: init again after a timeout"
        return Expectation((TORN, LOST, OPEN), (said,))
    return None


def transaction_timeout(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A write takes longer than the transaction may last.

    Origin: KIP-588 and flink#16941.

    Steps: The answer to a write is held until the deadline of its transaction has passed and the broker has aborted it.

    Healthy: It hears that the transaction is aborted, does it again, and never reports the late one as done. Most
    clients need a new producer for that.

    Cure: On a fatal or fenced error close the producer, build another one with the same transactional id, and read on
    from the committed offsets.
    """
    with on_write(eosin, app).at("handled").hold() as rule:
        app.feed()
        fired(rule, "Produce")
        if not deadline_passes(eosin, app):
            raise NotExercised("no transaction was open at its write")
        rule.release()
    return None


def timeout_at_commit(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The deadline of a transaction passes while its commit is under way.

    Origin: confluent-kafka-dotnet#1533, librdkafka#3325 and KAFKA-20785.

    Steps: EndTxn(commit) is held until the transaction is timed out, and executed then.

    Healthy: It hears that nothing was committed, and does the transaction again.

    Cure: Take an error of commit as one: only a commit that returned is one. Go back to the committed offsets, for the
    position of the consumer has gone on.
    """
    with on_end(eosin).hold() as rule:
        app.feed()
        fired(rule, "EndTxn")
        if not deadline_passes(eosin, app):
            raise NotExercised("no transaction was open at its commit")
        rule.release()
    return None


def lost_init_response(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A producer is given its identity, and does not hear of it, twice.

    Origin: KIP-360 and spring-kafka#1408.

    Steps: The application is started again; the answer to its InitProducerId is lost two times.

    Healthy: It asks again, and uses the newest identity.

    Cure: Retry init_transactions while its error is retriable; never keep a producer whose init has failed.
    """
    with on_api(eosin, "InitProducerId").times(2).lose("answer") as rule:
        app.restart()
        app.feed()
        fired(rule, "InitProducerId", times=2)
    return None


def concurrent_transactions(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Markers of a transaction are late, so that the next one may not begin yet.

    Origin: kafkajs#296, librdkafka#3221 and confluent-kafka-python#967.

    Steps: Each marker is written 300 ms after its commit; requests meanwhile are answered CONCURRENT_TRANSACTIONS.

    Healthy: It begins the next transaction a little later, without dying.

    Cure: CONCURRENT_TRANSACTIONS is retriable: try again after a backoff.
    """
    with (
        eosin.faults.on(transactional_id=app.transactional_ids[-1]).at("marker").optional().always().delay(300) as rule
    ):
        app.feed(max(1, app.left // 2))
        fired(rule, "EndTxn")
        app.feed()
        app.catches_up(timeout=20)
    return None


def coordinator_moves(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The coordinator of the transaction moves while it is in work.

    Origin: aiokafka#1145 and aiokafka#1151.

    Steps: Each API of a transaction is answered NOT_COORDINATOR once, and COORDINATOR_LOAD_IN_PROGRESS once. Then the
    coordinator really goes away, forgets what it knew, and reads its log again.

    Healthy: It finds the coordinator again, and repeats the request.

    Cure: Both are retriable; a client that gives up is one to be updated, or rebuilt by its application.
    """
    apis = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
    rules = []
    for api in apis:
        rules.append(on_api(eosin, api).error("NOT_COORDINATOR"))
        rules.append(on_api(eosin, api).after(1).error("COORDINATOR_LOAD_IN_PROGRESS"))
    app.feed(max(1, app.left // 2))
    fired(rules[-2], "EndTxn")
    app.commits(timeout=5)
    app.feed(max(1, app.left // 2))
    eosin.move_coordinator("transaction", app.transactional_ids[-1], away_ms=_AWAY_MS, loading_ms=_LOADING_MS)
    app.feed()
    app.catches_up(timeout=10)
    return None
