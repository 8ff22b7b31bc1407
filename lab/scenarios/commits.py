"""Incidents at the end of a transaction: requests and answers that are lost, late, or in the wrong order."""

from eosin.lab.broker_api import BrokerApi
from eosin.lab.history.requests import FIRST_OF_TV2
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import (
    deadline_passes,
    fired,
    fires_for_a_while,
    now,
    on_api,
    on_end,
    on_write,
    requests_since,
)

_MARKERS_MS = 300
_LATE_MARKERS_MS = 1500
_GIVES_UP_S = 35
"""Longer than the request timeout of clients, which is 30 s in most of them."""
_SLICE_S = 0.1


def lost_commit_response(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A transaction is committed, and the application is not told.

    Origin: Jepsen's report on Bufstream (2024), and the commit gap of KAFKA#22860.

    Steps: The broker executes EndTxn(commit); its answer is lost with the connection, and for a second and a half so
    are the answers to its repetitions.

    Healthy: It commits once more, is told NONE, and goes on with the next transaction; nothing is done again.

    Cure: Treat a commit without an answer as neither done nor failed: call commit again on the same producer, or build
    another one and go on from the committed offsets.
    """
    with on_end(eosin).always().lose("answer") as rule:
        app.feed()
        fires_for_a_while(rule, app, "EndTxn")
    return None


def lost_commit_request(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A commit is lost before the broker has it.

    Origin: Jepsen's report on Bufstream (2024).

    Steps: For a second and a half the connection is reset whenever EndTxn(commit) arrives, which is not executed.

    Healthy: It sends the commit again; there is one commit.

    Cure: As for lost-commit-answer: an application cannot tell these two apart, and need not.
    """
    with on_end(eosin).always().lose("request") as rule:
        app.feed()
        fires_for_a_while(rule, app, "EndTxn")
    return None


def stalled_commit(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A commit is executed, and its answer does not come until the client has given up.

    Origin: KAFKA#6066 and confluent-kafka-dotnet#1533.

    Steps: The answer to EndTxn(commit) stalls until the client asks again or builds another producer: as long as
    its request timeout, 35 seconds at most.

    Healthy: It knows the outcome before it begins the next transaction.

    Cure: Never begin a transaction while the outcome of the last one is open: commit again until there is an answer,
    and keep the timeout of that call above the client's request timeout.
    """
    with on_end(eosin).lose("answer", "stall") as rule:
        app.feed()
        fired(rule, "EndTxn")
        place, waited_s = now(eosin), 0.0
        while not requests_since(eosin, place, "EndTxn", "InitProducerId") and waited_s < _GIVES_UP_S:
            app.goes_on(_SLICE_S)
            waited_s += _SLICE_S
        rule.release()
    said = f"its client waits longer for an answer than {_GIVES_UP_S} s: the answer came before"
    return Expectation(notes=(said,) if waited_s >= _GIVES_UP_S else ())


def delayed_endtxn(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The network keeps a commit, and delivers it in the middle of the next transaction.

    Origin: Jepsen's report on Bufstream (2024); KIP-890 is the cure in the protocol.

    Steps: EndTxn(commit) takes a detour: its connection is reset, and it is executed behind the first write of the next
    transaction. Its repetitions are executed, and their answers lost for a second and a half.

    Healthy: Under TV2 it loses nothing, since each transaction has an epoch of its own. Under TV1 no application can
    help it: what the late commit has torn, lost or doubled is in the report as forgiven, and does not fail it.

    Cure: A client that speaks TV2. Under TV1: after a commit that had no answer in time, call init_transactions again
    before the next transaction, which makes the late commit one of an old epoch.
    """
    place = now(eosin)
    with on_end(eosin).detour({"api": "Produce", "topic": app.outputs[0]}) as rule:
        with on_end(eosin).always().lose("answer"):
            app.feed(max(1, app.left // 2))
            fires_for_a_while(rule, app, "EndTxn")
        app.commits(timeout=5)
        app.feed()
        app.catches_up(timeout=5)
    spoken = max(each.version for each in requests_since(eosin, place, "EndTxn"))
    if spoken >= FIRST_OF_TV2:
        return Expectation(notes=(f"its client speaks transaction version 2 (EndTxn v{spoken})",))
    said = f"its client speaks transaction version 1 (EndTxn v{spoken}): it should init again after a timeout"
    return Expectation(notes=(said,))


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
        app.feed(1)  # no more, or a slow machine takes longer for it than a client waits
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
        app.feed(1)
        fired(rule, "EndTxn")
        if not deadline_passes(eosin, app):
            raise NotExercised("no transaction was open at its commit")
        rule.release()
    return None


def lost_init_response(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A producer is given its identity, and does not hear of it, twice.

    Origin: KIP-360 and spring-kafka#1408.

    Steps: The application is started again; the answers to its InitProducerId are lost for a second and a half, two at
    least.

    Healthy: It asks again, and uses the newest identity.

    Cure: Retry init_transactions while its error is retriable; never keep a producer whose init has failed.
    """
    with on_api(eosin, "InitProducerId").always().lose("answer") as rule:
        app.restart()
        app.feed()
        fired(rule, "InitProducerId", timeout=app.starts_s)
        fired(rule, "InitProducerId", times=2)
        fires_for_a_while(rule, app, "InitProducerId")
    return None


def concurrent_transactions(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Markers of a transaction are late, so that the next one may not begin yet.

    Origin: kafkajs#296, librdkafka#3221 and confluent-kafka-python#967.

    Steps: Each marker is written 300 ms after its commit, one after 1500 ms; requests meanwhile are answered
    CONCURRENT_TRANSACTIONS.

    Healthy: It begins the next transaction a little later, without dying.

    Cure: CONCURRENT_TRANSACTIONS is retriable: try again after a backoff.
    """
    own = app.transactional_ids[-1]
    with eosin.faults.on(transactional_id=own).at("marker").optional().delay(_LATE_MARKERS_MS) as rule:
        app.feed(max(1, app.left // 3))
        fired(rule, "EndTxn")
        app.feed(max(1, app.left // 2))
        app.catches_up()
    with eosin.faults.on(transactional_id=own).at("marker").optional().always().delay(_MARKERS_MS):
        app.feed()
        app.catches_up(timeout=20)
    return None


def coordinator_moves(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The coordinator of the transaction moves while it is in work.

    Origin: aiokafka#1145 and aiokafka#1151.

    Steps: Each API of a transaction is answered NOT_COORDINATOR once, and COORDINATOR_LOAD_IN_PROGRESS once; then the
    new coordinator loads for a second and a half.

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
    with on_end(eosin).always().error("COORDINATOR_LOAD_IN_PROGRESS") as rule:
        app.feed()
        fires_for_a_while(rule, app, "EndTxn")
    app.catches_up(timeout=10)
    return None
