"""Incidents with two instances of an application, or with one that has been taken for dead."""

from eosin.lab.broker_api import BrokerApi
from eosin.lab.scenarios.scenario import OWN, App, Expectation, NotExercised, NotPossible
from eosin.lab.scenarios.steps import (
    LASTS_S,
    another_begins,
    awaited_since,
    deadline_passes,
    fired,
    now,
    on_api,
    on_end,
    on_write,
    requests_since,
)

_FIRST = 1
"""Records fed while the client waits for an answer: for more a slow machine takes longer than it waits."""
_TURNS = 4
_UNSTABLE_S = 3.0
_WITH_MEMBER = 3
"""The version of TxnOffsetCommit that names the member."""
_NS_PER_S = 1_000_000_000
_NO_MEMBER = "it is no member of its group: its client, or it itself, assigns partitions without one"


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
        app.feed(_FIRST)
        fired(rule, "Produce")
        app.pause()
        rule.release()
        app.feed()
        _remove_members(eosin, app)
        app.start_another()
        app.catches_up(timeout=app.starts_s)
        app.resume()
        app.goes_on(LASTS_S)
    app.stop_first()
    return None


def zombie_member(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A member is removed from its group in the middle of a transaction, and sends its offsets late.

    Origin: KIP-447 and iceberg-kafka-connect#200.

    Steps: TxnOffsetCommit is held while all members are removed from the group, and executed then. Once more, with a
    process that is stopped meanwhile, and a second instance that does the records.

    Healthy: It is refused (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, or by its epoch), aborts, and the records are done
    once.

    Cure: Send offsets with the metadata of the consumer's group, and on an error abort and go back to the committed
    offsets.
    """
    _check_membership(eosin, app)
    place = now(eosin)
    with on_api(eosin, "TxnOffsetCommit").hold() as rule:
        app.feed(_FIRST)
        fired(rule, "TxnOffsetCommit")
        if requests_since(eosin, 0, "TxnOffsetCommit")[-1].version < _WITH_MEMBER:
            raise NotPossible("its client does not say with offsets which member it is (KIP-447)")
        _remove_members(eosin, app)
        rule.release()
    app.catches_up()
    removed = requests_since(eosin, place, "TxnOffsetCommit")[0]
    place = now(eosin)
    with on_api(eosin, "TxnOffsetCommit").hold() as rule:
        app.feed(_FIRST)
        fired(rule, "TxnOffsetCommit")
        app.pause()
        app.feed()
        _remove_members(eosin, app)
        app.start_another()
        app.catches_up(timeout=app.starts_s)
        app.resume()
        rule.release()
        app.goes_on(LASTS_S)
    app.stop_first()
    late = requests_since(eosin, place, "TxnOffsetCommit")[0]
    said = [each.code or "not at all" for each in (removed, late)]
    return Expectation(notes=(f"late offsets were answered {said[0]}, and those of a stopped process {said[1]}",))


def two_of_one_id(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Two instances have the same transactional id.

    Origin: faust#367, and deployments with a copied id.

    Steps: A second instance starts beside the first; the feed comes in portions; the second is ended, and the rest is
    left to the first.

    Healthy: They hinder each other, and write nothing twice; the report has the number of fences.

    Cure: An id for each instance that is stable and its own: the number of its pod, or of its partition.
    """
    place = now(eosin)
    own = set(app.transactional_ids)
    app.start_another()
    another_begins(eosin, app, place)
    for _ in range(_TURNS):
        app.feed(max(1, app.left // _TURNS))
        app.commits(timeout=2)
    app.stop_another()
    app.feed()
    inits = [each for each in requests_since(eosin, place, "InitProducerId") if each.transactional_id in own]
    if not inits:
        raise NotExercised("its instances have transactional ids of their own: nobody shares one")
    begun, ended = inits[0].asked_ns, eosin.history.events()[-1].at_ns
    each_minute = round(len(inits) * 60 * _NS_PER_S / max(1, ended - begun))
    said = f"the transactional id was initialized {len(inits)} times meanwhile, {each_minute} times a minute"
    return Expectation(notes=(said,))


def rebalance_mid_transaction(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Members join and leave while transactions are open.

    Origin: faust#517 and KIP-447.

    Steps: A commit is held; a second instance starts, and the group is emptied; the commit is executed; the second
    ends.

    Healthy: No record is lost, and none is done twice.

    Cure: Abort what is open when partitions are taken away, and begin each partition at its committed offset.
    """
    _check_membership(eosin, app)
    place = now(eosin)
    with on_end(eosin).hold() as rule:
        app.feed(max(1, app.left // 2))
        fired(rule, "EndTxn")
        app.start_another()
        another_begins(eosin, app, place)
        _remove_members(eosin, app)
        rule.release()
    app.feed()
    app.commits(timeout=2)
    app.stop_another()
    return None


def unstable_offsets(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A successor asks for offsets that a transaction has not decided yet.

    Origin: KIP-447 and librdkafka#3265.

    Steps: A commit is held for three seconds; meanwhile a second instance starts, and the group is emptied. Then the
    application is killed and starts again, while for three seconds a foreign transaction holds offsets of its group,
    which is aborted at last.

    Healthy: Whoever asks for the offsets waits (UNSTABLE_OFFSET_COMMIT), and starts at those that are committed.

    Cure: A client that asks for stable offsets (OffsetFetch v7): librdkafka since 1.6, Java since 2.5.
    """
    with on_end(eosin).hold() as rule:
        app.feed(_FIRST)
        fired(rule, "EndTxn")
        pending = [eosin.group(app.group).pending(app.input, each) for each in range(eosin.topic(app.input).partitions)]
        if all(each is None for each in pending):
            raise NotExercised("no offsets were pending: offsets are not in its transactions")
        app.start_another()
        _remove_members(eosin, app)
        app.goes_on(_UNSTABLE_S)
        rule.release()
    app.commits(timeout=2)
    app.stop_first()
    app.catches_up()
    other = eosin.successor(f"{OWN}-foreign")
    for each in range(eosin.topic(app.input).partitions):
        other.send_offsets(app.group, app.input, eosin.group(app.group).offset(app.input, each) or 0, partition=each)
    place = now(eosin)
    app.restart()
    app.feed()
    awaited_since(eosin, app, place, "OffsetFetch")
    app.goes_on(_UNSTABLE_S)
    other.abort()
    asked = requests_since(eosin, place, "OffsetFetch")
    refused = sum(each.code == "UNSTABLE_OFFSET_COMMIT" for each in asked)
    if not asked:
        raise NotExercised("it asked for no offsets when it was started again")
    if not refused:
        version = max(each.version for each in asked)
        raise NotPossible(f"its client does not ask for stable offsets (KIP-447): it sent OffsetFetch v{version}")
    return Expectation(notes=(f"offsets that are not decided were asked for {refused} times",))


def network_partition(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The application is cut off for longer than its transaction may last, and the network heals.

    Origin: every network.

    Steps: At the answer to a write the network between clients and the broker is cut; the transaction is timed out; the
    network heals.

    Healthy: As after transaction-timeout: what it had begun is aborted, and done again.

    Cure: As for transaction-timeout.
    """
    with on_write(eosin, app).at("handled").hold() as rule:
        app.feed(_FIRST)
        fired(rule, "Produce")
        cut = eosin.network.partition()
        try:
            if not deadline_passes(eosin, app):
                raise NotExercised("no transaction was open at its write")
        finally:
            eosin.network.heal()
    return Expectation(notes=(f"{cut} connections were cut",))


def _check_membership(eosin: BrokerApi, app: App) -> None:
    if not eosin.group(app.group).members:
        raise NotPossible(_NO_MEMBER)


def _remove_members(eosin: BrokerApi, app: App) -> None:
    """Take the members out of the group; one that assigns partitions without a group has none."""
    if eosin.group(app.group).members:
        eosin.group(app.group).kick()
