"""Incidents of the input: aborted data, open and hanging transactions of others, markers; and of the output topic."""

from eosin.lab.broker_api import BrokerApi
from eosin.lab.scenarios.foreign_client import abort_hanging, abort_in_every_compression
from eosin.lab.scenarios.scenario import OWN, App, Expectation, NotExercised
from eosin.lab.scenarios.steps import awaited_since, fired, fires_for_a_while, now, on_write

_FOREIGN = f"{OWN}-foreign"
_VALUE = '{"id": "of-an-aborted-transaction"}'
_WAITS_S = 2.0
_TAIL_S = 5.0
_READS_S = 0.5


def aborted_data(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The input has records of aborted transactions before, between and after the others.

    Origin: librdkafka#3020, platformatic/kafka#137 and redpanda#6630.

    Steps: Foreign producers abort transactions in every partition of the input, between portions of the feed: each time
    one in every compression.

    Healthy: It never handles one of them.

    Cure: isolation.level=read_committed, which is not the default of every client.
    """
    partitions = range(eosin.topic(app.input).partitions)
    names: tuple[str, ...] = ()
    for _ in range(3):
        for partition in partitions:
            names = abort_in_every_compression(eosin, app.input, partition)
        app.feed(max(1, app.left // 3))
        app.commits(timeout=2)
    app.feed()
    app.catches_up()
    last = [eosin.topic(app.input).aborted(each)[-1].first_offset for each in partitions]
    if not any((eosin.group(app.group).offset(app.input, each) or 0) > last[each] for each in partitions):
        raise NotExercised("it has read up to none of the aborted records")
    return Expectation(notes=(f"in these compressions: {', '.join(names)}",))


def lso_stuck(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """Somebody else leaves a transaction open on the input.

    Origin: kafka-flow#849, kafka-flow#850 and risingwave#24717.

    Steps: A foreign transaction is open on the first partition of the input while the rest of the feed is written
    behind it; after two seconds it is aborted.

    Healthy: It reads what it may, waits for the rest without counting it as lag, and reads on.

    Cure: Ends of partitions are last stable offsets to a reader of committed records.
    """
    eosin.produce(app.input, _VALUE, key="open", partition=0, transactional_id=_FOREIGN, commit=False)
    app.feed()
    place = now(eosin)
    app.goes_on(_WAITS_S)
    why = eosin.explain(f"{app.input}-0")
    is_read = bool(awaited_since(eosin, app, place, "Fetch"))
    eosin.transactions(_FOREIGN).abort()
    if not is_read:
        raise NotExercised("it did not read while the transaction was open")
    return Expectation(notes=(why,))


def hanging_transaction(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A batch comes after the end of its transaction, and nobody ends it any more.

    Origin: KIP-890 and redpanda#17827.

    Steps: A foreign producer writes on to the input after it has aborted. A broker as of Kafka 2.5 takes the batch,
    and holds readers of committed records up until an operator aborts the transaction after two seconds; since
    KIP-890 brokers refuse it.

    Healthy: It waits, and reads on after the operator's abort, without the late record.

    Cure: A broker that verifies transactions; before: `eosin transactions find-hanging`.
    """
    eosin.produce(app.input, _VALUE, key="late", partition=0, transactional_id=_FOREIGN, commit=False)
    late = eosin.zombie(_FOREIGN)
    late.abort()
    answer = late.write(app.input, _VALUE, partition=0)
    app.feed()
    if answer != "NONE":
        raise NotExercised(f"the late batch was refused: {answer}")
    place = now(eosin)
    app.goes_on(_WAITS_S)
    why = eosin.explain(f"{app.input}-0")
    is_read = bool(awaited_since(eosin, app, place, "Fetch"))
    if not abort_hanging(eosin, app.input, 0):
        raise NotExercised("no transaction hung in the input")
    if not is_read:
        raise NotExercised("it did not read while the transaction hung")
    return Expectation(notes=(why,))


def control_tail(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The input ends in markers, so that its end offset is never that of a record.

    Origin: spring-kafka#1587, druid#16689 and librdkafka#2539.

    Steps: Behind the feed an aborted transaction ends every partition of the input.

    Healthy: It finishes: it does not wait for an offset that no record has.

    Cure: Compare positions with end offsets, not offsets of records.
    """
    app.feed(app.left - 1)
    app.catches_up()
    # The last record and the markers behind it come at once, so that no reader sees the one without the others.
    app.pause()
    app.feed()
    for partition in range(eosin.topic(app.input).partitions):
        eosin.produce(app.input, _VALUE, key="tail", partition=partition, transactional_id=_FOREIGN, commit=False)
        eosin.transactions(_FOREIGN).abort()
    place = now(eosin)
    app.resume()
    app.catches_up(timeout=_TAIL_S)
    app.goes_on(_READS_S)
    if not awaited_since(eosin, app, place, "Fetch"):
        raise NotExercised("it read nothing of the tail")
    return None


def sequence_gap(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker no longer knows a producer, or misses a batch of it.

    Origin: KIP-360.

    Steps: A write is answered OUT_OF_ORDER_SEQUENCE_NUMBER, a later one UNKNOWN_PRODUCER_ID.

    Healthy: There is no gap and nothing is there twice; most clients abort the transaction for it.

    Cure: Ask of each record whether it was written, then abort, and do it again from the committed offsets; rebuild the
    producer if it says so.
    """
    with on_write(eosin, app).error("OUT_OF_ORDER_SEQUENCE_NUMBER") as rule:
        app.feed(max(1, app.left // 2))
        fired(rule, "Produce")
    app.commits(timeout=5)
    with on_write(eosin, app).error("UNKNOWN_PRODUCER_ID") as rule:
        app.feed()
        fired(rule, "Produce")
    return None


def topic_recreated(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The output topic is deleted, and made again.

    Origin: operators, and tests that clean up.

    Steps: In the middle of the feed the output topic is deleted and created anew, while no transaction is open; for a
    second and a half brokers do not know it (UNKNOWN_TOPIC_OR_PARTITION).

    Healthy: It goes on: all that was not in the deleted topic is there once, and never a half of a transaction.

    Cure: Take UNKNOWN_TOPIC_OR_PARTITION for a reason to try again; what was in the topic has to be made again from its
    input, by an operator who resets the offsets.
    """
    name = app.outputs[0]
    partitions = eosin.topic(name).partitions
    app.feed(max(1, app.left // 2))
    if not app.catches_up():
        raise NotExercised("it had not copied all that there was when the topic was to be deleted")
    eosin.settle()  # offsets may be committed before the last records are shown
    gone = tuple(eosin.topic(name).records())
    if not gone:
        raise NotExercised("it wrote nothing to the topic before it was deleted")
    with on_write(eosin, app).always().error("UNKNOWN_TOPIC_OR_PARTITION") as rule:
        eosin.topic(name).delete()
        eosin.topic(name).create(partitions)
        app.feed()
        fires_for_a_while(rule, app, "Produce")
    return Expectation(gone=gone, notes=(f"{len(gone)} records went with the topic",))
