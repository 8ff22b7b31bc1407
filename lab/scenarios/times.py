"""Incidents of time: idle weeks, slow and throttled brokers, clocks that jump."""

from eosin.lab.broker_api import BrokerApi
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import fired, on_api, on_write, portions

_STARTS = 3


def idle_week(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Nothing happens for a week, so that the broker forgets the transactional id; then there is traffic.

    Origin: micronaut-kafka#542, spring-kafka#660 and parallel-consumer#830.

    Steps: Eight days pass at once, without traffic; then the rest of the feed comes.

    Healthy: It goes on, or builds a new producer; it does not retry for ever what cannot succeed.

    Cure: INVALID_PRODUCER_ID_MAPPING is no retriable error: abort, and rebuild the producer if that fails.
    """
    app.catches_up()
    eosin.clock.advance(days=8)
    app.feed()
    return None


def idle_producer_state(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Nothing is written for a day, so that partitions forget the producer; then there is traffic.

    Origin: producer.id.expiration.ms.

    Steps: Twenty-five hours pass at once, without traffic; then the rest of the feed comes.

    Healthy: It goes on; nothing is there twice.

    Cure: A client of 2.5 (KIP-360) or later.
    """
    app.catches_up()
    eosin.clock.advance(hours=25)
    app.feed()
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
    app.feed()
    return None


def slow_broker(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker is slow, and its answers trickle.

    Origin: overloaded machines, and disks of the cloud that have used up their credit.

    Steps: Each sync takes half a second, and answers to writes leave in pieces of seven bytes.

    Healthy: It is slower, and not wrong.

    Cure: Timeouts that are longer than the slowest sync.
    """
    with on_write(eosin, app).always().trickle(7, 20) as rule:
        eosin.disk.slow("sync", 500)
        app.feed(3)
        fired(rule, "Produce")
        app.commits(timeout=10)
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

    Steps: In the middle of a transaction the broker restarts; requests for metadata are held until the transaction is
    timed out.

    Healthy: It recovers: the transaction is aborted and done again.

    Cure: As for transaction-timeout.
    """
    with on_api(eosin, "Metadata").always().hold() as rule:
        app.feed()
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

    Steps: The transactional id begins at epoch 32764; three times a portion of the feed comes and the application is
    started again, until the producer id is another.

    Healthy: It does not notice.

    Cure: A client that takes the producer id and the epoch of every answer.
    """
    transactional_id = app.transactional_ids[-1]
    before = eosin.transactions(transactional_id).producer_id
    for _ in portions(app, _STARTS):
        app.commits(timeout=5)
        app.restart()
    if not app.catches_up():
        return None
    if eosin.transactions(transactional_id).producer_id == before:
        raise NotExercised("its producer id is the same: the application has another transactional id at each start")
    return None
