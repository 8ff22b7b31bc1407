"""Incidents of time: idle weeks, slow and throttled brokers, clocks that jump."""

from eosin.lab.broker_api import BrokerApi
from eosin.lab.ready_made import LAST_EPOCHS
from eosin.lab.scenarios.foreign_client import set_topic_config
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import (
    another_begins,
    awaited_since,
    fired,
    now,
    on_api,
    on_end,
    on_write,
    requests_since,
)

_STARTS = 3
_SYNC_MS = 2000
_SLOW_S = 4.0


def idle_week(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Nothing happens for a week, so that the broker forgets the transactional id; then there is traffic.

    Origin: micronaut-kafka#542, spring-kafka#660 and parallel-consumer#830.

    Steps: Eight days pass at once, without traffic; then the rest of the feed comes.

    Healthy: It goes on, or builds a new producer; it does not retry for ever what cannot succeed.

    Cure: INVALID_PRODUCER_ID_MAPPING is no retriable error: abort, and rebuild the producer if that fails. Whoever
    assigns partitions without a group remembers its offsets: those of a group without members expire as well.
    """
    app.catches_up()
    ids = app.transactional_ids
    forgotten = set(eosin.clock.advance(days=8).expired)
    if forgotten.isdisjoint(ids):
        raise NotExercised("its transactional id was in use all the week")
    place = now(eosin)
    app.feed()
    app.commits()
    met = [
        *requests_since(eosin, place, code="INVALID_PRODUCER_ID_MAPPING"),
        *requests_since(eosin, place, "InitProducerId"),
    ]
    if not met:
        raise NotExercised("it used its transactional id no more after the week")
    said = f"after the week {met[0].api} was answered {met[0].code or 'not at all'}"
    return Expectation(notes=(said,))


def idle_producer_state(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Nothing is written for a day, so that partitions forget the producer; then there is traffic.

    Origin: producer.id.expiration.ms.

    Steps: Twenty-five hours pass at once, without traffic; then the rest of the feed comes, and the answer to the first
    write is lost, so that the client repeats it.

    Healthy: It goes on; nothing is there twice.

    Cure: A client of 2.5 (KIP-360) or later.
    """
    app.catches_up()
    eosin.clock.advance(hours=25)
    with on_write(eosin, app).lose("answer") as rule:
        app.feed()
        fired(rule, "Produce")
    return None


def clock_jump(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker's time of day jumps ten minutes ahead.

    Origin: NTP, and virtual machines that wake up.

    Steps: The records of the input get the broker's time (LogAppendTime), whose wall clock jumps by ten minutes in the
    middle of the feed.

    Healthy: It is not harmed.

    Cure: Never compare times of two machines.
    """
    set_topic_config(eosin, app.input, "message.timestamp.type", "LogAppendTime")
    app.feed(max(1, app.left // 2))
    eosin.clock.jump_wall(600_000)
    place = now(eosin)
    app.feed()
    # Not a commit: that may be one of what was written before the jump.
    if not awaited_since(eosin, app, place, "Produce", code="NONE"):
        raise NotExercised("it wrote nothing after the jump")
    return None


def slow_broker(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker is slow, and its answers trickle.

    Origin: overloaded machines, and disks of the cloud that have used up their credit.

    Steps: For some seconds each sync takes two, and all the time answers to writes leave in pieces of seven bytes.

    Healthy: It is slower, and not wrong.

    Cure: Timeouts that are longer than the slowest sync.
    """
    with on_write(eosin, app).always().trickle(7, 20) as rule:
        with on_write(eosin, app).hold() as held:
            app.feed(max(1, app.left // 2))
            fired(held, "Produce")
            eosin.disk.slow("sync", _SYNC_MS)
            held.release()
        app.goes_on(_SLOW_S)
        eosin.disk.heal()
        fired(rule, "Produce")
        app.feed()
        app.catches_up()
    return None


def throttled(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker throttles the application.

    Origin: quotas, KIP-219.

    Steps: The answer to a write throttles its client for five seconds.

    Healthy: It waits.

    Cure: Timeouts of transactions that leave room for it.
    """
    with on_write(eosin, app).throttle(5000) as rule:
        app.feed()
        fired(rule, "Produce")
    return None


def metadata_timeouts(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Metadata does not come for longer than a transaction may last.

    Origin: long fetches of metadata after which the transaction had timed out.

    Steps: At a write in the middle of a transaction the broker restarts; requests for metadata, and the commit of a
    client that needs none, are held until the transaction is timed out.

    Healthy: It recovers: the transaction is aborted and done again.

    Cure: As for transaction-timeout.
    """
    with (
        on_write(eosin, app).at("handled").hold() as written,
        on_api(eosin, "Metadata").always().hold() as rule,
        on_end(eosin).always().hold() as commit,
    ):
        app.feed()
        fired(written, "Produce")
        eosin.restart(clean=False)
        fired(rule, "Metadata")
        for each in app.transactional_ids:
            deadline = eosin.transactions(each).deadline
            if deadline is not None:
                eosin.clock.advance_to(deadline)
        eosin.clock.advance(seconds=70)
        commit.release()
        rule.release()
    return None


def last_epoch(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The producer epoch is used up, and the next transaction gets another producer id.

    Origin: KAFKA-18660, KAFKA-19367 and KAFKA-20090.

    Steps: The transactional id begins the run at epoch 32764; three times a portion of the feed comes, and the
    application is killed at its commit and starts again. Each start uses up an epoch, and under TV2 each transaction
    does, so that the producer id has become another one.

    Healthy: It does not notice.

    Cure: A client that takes the producer id and the epoch of every answer.
    """
    ids = app.transactional_ids
    size = max(1, app.left // _STARTS)
    for _ in range(_STARTS):
        with on_end(eosin).hold() as rule:
            app.feed(size)
            fired(rule, "EndTxn")
            place = now(eosin)
            app.restart()
            another_begins(eosin, app, place)
        app.commits()
    app.feed()
    if not app.catches_up():
        return None
    if app.transactional_ids != ids:
        raise NotExercised("it has another transactional id at each start, of which no epoch is used up")
    # Epochs of one producer id only grow: a lower one than the run began with is that of another producer id.
    epoch = eosin.transactions(ids[-1]).epoch
    if epoch is None or epoch >= LAST_EPOCHS:
        raise NotExercised("its producer id is the one that it began with: it has used up too few epochs")
    return None
