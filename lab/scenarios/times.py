"""Incidents of time: idle weeks, slow and throttled brokers, clocks that jump."""

from eosin.lab.broker_api import BrokerApi
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import asked_since, fired, now, on_api, on_end, on_write

_STARTS = 3
_SYNC_MS = 2000
_SLOW_S = 4.0


def idle_week(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Nothing happens for a week, so that the broker forgets the transactional id; then there is traffic.

    Origin: micronaut-kafka#542, spring-kafka#660 and parallel-consumer#830.

    Steps: Eight days pass at once, without traffic; then the rest of the feed comes.

    Healthy: It goes on, or builds a new producer; it does not retry for ever what cannot succeed.

    Cure: INVALID_PRODUCER_ID_MAPPING is no retriable error: abort, and rebuild the producer if that fails.
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
        *asked_since(eosin, place, code="INVALID_PRODUCER_ID_MAPPING"),
        *asked_since(eosin, place, "InitProducerId"),
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

    Steps: The wall clock jumps by ten minutes in the middle of the feed.

    Healthy: It is not harmed.

    Cure: Never compare times of two machines.
    """
    app.feed(max(1, app.left // 2))
    eosin.clock.jump_wall(600_000)
    place = now(eosin)
    app.feed()
    app.commits()
    if not asked_since(eosin, place, "Produce", code="NONE"):
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
        fired(rule, "Produce")
        app.goes_on(_SLOW_S)
        eosin.disk.heal()
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

    Steps: At a write in the middle of a transaction the broker restarts; requests for metadata are held until the
    transaction is timed out.

    Healthy: It recovers: the transaction is aborted and done again.

    Cure: As for transaction-timeout.
    """
    with on_write(eosin, app).at("handled").hold() as written, on_api(eosin, "Metadata").always().hold() as rule:
        app.feed()
        fired(written, "Produce")
        eosin.restart(clean=False)
        fired(rule, "Metadata")
        for each in app.transactional_ids:
            deadline = eosin.transactions(each).deadline
            if deadline is not None:
                eosin.clock.advance_to(deadline)
        eosin.clock.advance(seconds=70)
        rule.release()
    return None


def last_epoch(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The producer epoch is used up, and the next transaction gets another producer id.

    Origin: KAFKA-18660, KAFKA-19367 and KAFKA-20090.

    Steps: The transactional id begins at epoch 32764; three times a portion of the feed comes, and the application is
    killed at its commit and starts again, until the producer id is another.

    Healthy: It does not notice.

    Cure: A client that takes the producer id and the epoch of every answer.
    """
    transactional_id = app.transactional_ids[-1]
    before = eosin.transactions(transactional_id).producer_id
    size = max(1, app.left // _STARTS)
    for _ in range(_STARTS):
        with on_end(eosin).hold() as rule:
            app.feed(size)
            fired(rule, "EndTxn")
            app.restart()
        app.commits()
    app.feed()
    if not app.catches_up():
        return None
    if eosin.transactions(transactional_id).producer_id == before:
        raise NotExercised("its producer id is the same: the application has another transactional id at each start")
    return None
