"""Incidents with two instances of an application, or with one that has been taken for dead."""

from eosin.lab.broker_api import BrokerApi
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import deadline_passes, fired, on_api, on_end, on_write

_TURNS = 4


def zombie_after_pause(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """An instance pauses in the middle of a transaction, is replaced, and goes on as if nothing had happened.

    Origin: long collections of garbage: faust#323, surge#9.

    Steps: The process is stopped while its write is answered; a second instance starts, and the group is rid of the
    first; then the first goes on.

    Healthy: The first writes nothing more that is committed; the second loses nothing and doubles nothing.

    Cure: One transactional id for each role, the same at each start, so that a successor fences its predecessor; and
    offsets in the transaction.
    """
    with on_write(eosin, app).at("handled").hold() as rule:
        app.feed()
        fired(rule, "Produce")
        app.pause()
        rule.release()
        eosin.group(app.group).kick()
        app.start_another()
        app.catches_up(timeout=10)
        app.resume()
        app.commits(timeout=1)
    app.stop_first()
    return None


def zombie_member(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A member is removed from its group in the middle of a transaction, and sends its offsets late.

    Origin: KIP-447 and iceberg-kafka-connect#200.

    Steps: TxnOffsetCommit is held while all members are removed from the group, and executed then.

    Healthy: It is refused (ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID), aborts, and the records are done again.

    Cure: Send offsets with the metadata of the consumer's group, and on an error abort and go back to the committed
    offsets.
    """
    with on_api(eosin, "TxnOffsetCommit").hold() as rule:
        app.feed()
        fired(rule, "TxnOffsetCommit")
        if not eosin.group(app.group).members:
            raise NotExercised("the application is no member of its group: it assigns partitions itself")
        eosin.group(app.group).kick()
        rule.release()
    return None


def two_of_one_id(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Two instances have the same transactional id.

    Origin: faust#367, and deployments with a copied id.

    Steps: A second instance starts beside the first; the feed comes in portions; the second is ended.

    Healthy: They hinder each other, and write nothing twice; the report has the number of fences.

    Cure: An id for each instance that is stable and its own: the number of its pod, or of its partition.
    """
    before = len(eosin.history.requests("InitProducerId"))
    app.start_another()
    for _ in range(_TURNS):
        app.feed(max(1, app.left // _TURNS))
        app.commits(timeout=2)
    app.feed()
    app.commits(timeout=1)
    app.stop_another()
    inits = len(eosin.history.requests("InitProducerId")) - before
    return Expectation(notes=(f"producers were initialized {inits} times meanwhile",))


def rebalance_mid_transaction(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Members join and leave while transactions are open.

    Origin: faust#517 and KIP-447.

    Steps: A second instance starts; its group is emptied while a commit is held; the second ends.

    Healthy: No record is lost, and none is done twice.

    Cure: Abort what is open when partitions are taken away, and begin each partition at its committed offset.
    """
    app.start_another()
    app.feed(max(1, app.left // 2))
    with on_end(eosin).hold() as rule:
        app.feed(max(1, app.left // 2))
        fired(rule, "EndTxn")
        eosin.group(app.group).kick()
        rule.release()
    app.feed()
    app.commits(timeout=2)
    app.stop_another()
    return None


def unstable_offsets(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A successor asks for offsets that a transaction has not decided yet.

    Origin: KIP-447 and librdkafka#3265.

    Steps: A commit is held for three seconds; meanwhile a second instance starts, and the group is emptied.

    Healthy: Whoever asks for the offsets waits (UNSTABLE_OFFSET_COMMIT), and starts at those that are committed.

    Cure: A client that asks for stable offsets (OffsetFetch v7): librdkafka since 1.6, Java since 2.5.
    """
    with on_end(eosin).hold() as rule:
        app.feed()
        fired(rule, "EndTxn")
        pending = [eosin.group(app.group).pending(app.input, each) for each in range(eosin.topic(app.input).partitions)]
        if all(each is None for each in pending):
            raise NotExercised("no offsets were pending: offsets are not in its transactions")
        app.start_another()
        eosin.group(app.group).kick()
        app.commits(timeout=3)
        rule.release()
    app.commits(timeout=2)
    app.stop_another()
    return None


def network_partition(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The application is cut off for longer than its transaction may last, and the network heals.

    Origin: every network.

    Steps: From a write on nothing of the application arrives; its transaction is timed out; then all arrives.

    Healthy: As after transaction-timeout: what it had begun is aborted, and done again.

    Cure: As for transaction-timeout.
    """
    held = ("EndTxn", "TxnOffsetCommit", "AddOffsetsToTxn", "AddPartitionsToTxn", "Fetch", "Heartbeat")
    with on_write(eosin, app).at("handled").hold() as cut:
        app.feed()
        fired(cut, "Produce")
        with on_api(eosin, held).always().hold():
            if not deadline_passes(eosin, app):
                raise NotExercised("no transaction was open at its write")
    return None
