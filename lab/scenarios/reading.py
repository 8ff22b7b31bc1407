"""Incidents of the input: aborted data, open and hanging transactions of others, markers; and of the output topic."""

from eosin.lab.broker_api import BrokerApi
from eosin.lab.scenarios.scenario import OWN, App, Expectation, NotExercised
from eosin.lab.scenarios.steps import fired, on_write
from eosin.lab.verdict.findings import LOST, STUCK

_FOREIGN = f"{OWN}-foreign"
_VALUE = '{"id": "of-an-aborted-transaction"}'


def aborted_data(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The input has records of aborted transactions before, between and after the others.

    Origin: librdkafka#3020, platformatic/kafka#137 and redpanda#6630.

    Steps: A foreign producer aborts transactions in every partition of the input, between portions of the feed.

    Healthy: It never handles one of them.

    Cure: isolation.level=read_committed, which is not the default of every client.
    """
    partitions = eosin.topic(app.input).partitions
    for _ in range(3):
        for partition in range(partitions):
            eosin.produce(
                app.input,
                _VALUE,
                key=f"aborted-{partition}",
                partition=partition,
                transactional_id=_FOREIGN,
                commit=False,
            )
            eosin.transactions(_FOREIGN).abort()
        app.feed(max(1, app.left // 3))
        app.commits(timeout=2)
    app.feed()
    return None


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
    app.commits(1_000_000, timeout=2)
    why = eosin.explain(f"{app.input}-0")
    eosin.transactions(_FOREIGN).abort()
    return Expectation(notes=(why,))


def hanging_transaction(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A batch comes after the end of its transaction, and nobody ends it any more.

    Origin: KIP-890 and redpanda#17827.

    Steps: After its transaction was aborted a producer writes on. This broker refuses the batch, as Kafka does since
    KIP-890; one that takes it holds readers up until an operator aborts the transaction.

    Healthy: It reads on.

    Cure: A broker that verifies transactions; before: `eosin transactions find-hanging`.
    """
    eosin.produce(app.input, _VALUE, key="late", partition=0, transactional_id=_FOREIGN, commit=False)
    late = eosin.zombie(_FOREIGN)
    eosin.transactions(_FOREIGN).abort()
    answer = late.write(app.input, _VALUE, partition=0)
    app.feed()
    if answer == "NONE":
        raise NotExercised("the late batch was taken")
    return Expectation(notes=(f"the late batch was answered {answer}",))


def control_tail(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The input ends in markers, so that its end offset is never that of a record.

    Origin: spring-kafka#1587, druid#16689 and librdkafka#2539.

    Steps: Behind the feed an aborted transaction ends every partition of the input.

    Healthy: It finishes: it does not wait for an offset that no record has.

    Cure: Compare positions with end offsets, not offsets of records.
    """
    app.feed()
    for partition in range(eosin.topic(app.input).partitions):
        eosin.produce(app.input, _VALUE, key="tail", partition=partition, transactional_id=_FOREIGN, commit=False)
        eosin.transactions(_FOREIGN).abort()
    return None


def sequence_gap(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker no longer knows a producer, or misses a batch of it.

    Origin: KIP-360.

    Steps: A write is answered OUT_OF_ORDER_SEQUENCE_NUMBER, a later one UNKNOWN_PRODUCER_ID.

    Healthy: There is no gap and nothing is there twice; most clients abort the transaction for it.

    Cure: Abort, and do it again from the committed offsets; rebuild the producer if it says so.
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

    Steps: In the middle of the feed the output topic is deleted and created anew.

    Healthy: It fails loudly, or goes on; there is never a half of a transaction. What was in the deleted topic is lost
    whatever it does.

    Cure: None.
    """
    name = app.outputs[0]
    partitions = eosin.topic(name).partitions
    app.feed(max(1, app.left // 2))
    app.catches_up()
    eosin.topic(name).delete()
    eosin.topic(name).create(partitions)
    app.feed()
    return Expectation(forgiven=(LOST, STUCK))
