"""Incidents of the broker: losses of power, kills at the worst moment, restarts, disks."""

from contextlib import suppress

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import fired, on_write, portions
from eosin.runtime.chance import SeededChance

_CUTS = 12
_POINTS = ("appended", "durable", "prepared", "marker", "complete")
_RESTARTS = 5
_FULL_S = 2.0
_FULL = ("KAFKA_STORAGE_ERROR", "NOT_ENOUGH_REPLICAS")
"""Answers to a write on a full disk: the second one under TV2, when the coordinator cannot add its partition."""
_NEVER = 1_000_000


def power_cut(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker's machine loses its power, again and again, in the middle of transactions.

    Origin: power cuts after which a producer is fenced, or a half of a transaction is there.

    Steps: Twelve losses of power at points that the seed chooses: a batch appended, or durable, the outcome prepared,
    one marker written, all written. The broker starts again each time.

    Healthy: It goes on after each start; nothing is lost and nothing is there twice.

    Cure: Retry what is retriable; rebuild the producer after the rest, and read on from the committed offsets.
    """
    chance = SeededChance(seed)
    cuts = 0
    size = max(1, app.left // _CUTS)
    for _ in range(_CUTS):
        point = _POINTS[chance.below(len(_POINTS))]
        match = {"topic": app.outputs[0]} if point in ("appended", "durable") else {}
        # A call that the loss of power hits has no answer.
        with suppress(LabError), eosin.faults.on(**match).at(point).optional().crash("power") as rule:
            app.feed(size)
            app.commits(timeout=1)
            cuts += rule.fired
    if not cuts:
        raise NotExercised("no transaction was under way: the application wrote nothing")
    return Expectation(notes=(f"{cuts} losses of power",))


def kill_between_markers(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker dies when one of the partitions of a transaction knows the outcome.

    Origin: redpanda#9571 and its family.

    Steps: The broker is killed after the first marker of a transaction, and starts again.

    Healthy: All partitions end alike; it goes on.

    Cure: None is needed in an application that retries.
    """
    with eosin.faults.on(transactional_id=app.transactional_ids[-1]).at("marker").optional().crash("kill") as rule:
        app.feed()
        fired(rule, "EndTxn")
    return None


def kill_after_prepare(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker dies when it has decided an outcome and told nobody.

    Origin: the roll-forward of every coordinator.

    Steps: The broker is killed when the outcome is durable and no marker is written, and starts again.

    Healthy: The transaction is committed once, and visible after the start.

    Cure: None is needed in an application that commits again when it had no answer.
    """
    with eosin.faults.on(transactional_id=app.transactional_ids[-1]).at("prepared").optional().crash("kill") as rule:
        app.feed()
        fired(rule, "EndTxn")
    return None


def restart_loop(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker restarts again and again, as in a rolling update that goes wrong.

    Origin: rolling restarts.

    Steps: Five restarts, clean ones and kills in turns, with a portion of the feed before each.

    Healthy: It makes progress between them.

    Cure: Retry, without a limit on the number of attempts; limit the time instead.
    """
    for number in portions(app, _RESTARTS):
        eosin.restart(clean=number % 2 == 0)
        app.commits(timeout=2)
    return None


def full_disk(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker's disk is full for some seconds.

    Origin: full disks.

    Steps: No room for two seconds while the application writes; then there is room again.

    Healthy: It retries, and loses nothing that was acknowledged.

    Cure: KAFKA_STORAGE_ERROR is retriable: try again for as long as the delivery may take.
    """
    with on_write(eosin, app).hold() as rule:
        app.feed()
        fired(rule, "Produce")
        eosin.disk.full()
        rule.release()
    app.commits(_NEVER, timeout=_FULL_S)
    refused = any(eosin.history.requests(code=each) for each in _FULL)
    eosin.disk.free()
    if not refused:
        raise NotExercised("the application wrote nothing while the disk was full")
    return None


def failed_sync(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """A sync of the broker's disk fails, and an operator restarts the broker.

    Origin: the fsync that lies (PostgreSQL 2018).

    Steps: One sync of the output fails with EIO; the broker is restarted.

    Healthy: It retries; what was acknowledged is there.

    Cure: As for full-disk.
    """
    eosin.disk.fail("sync", f"{app.outputs[0]}-")
    app.feed()
    app.commits(timeout=2)
    if not eosin.history.requests(code="KAFKA_STORAGE_ERROR"):
        eosin.disk.heal()
        raise NotExercised("no sync of the output failed: the application wrote nothing")
    eosin.disk.heal()
    eosin.restart(clean=False)
    return None


def half_response(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The answer to a write ends in the middle.

    Origin: proxies and load balancers that end connections.

    Steps: Six times the connection ends after some bytes of the answer to a write; how many, the seed says.

    Healthy: It connects again and repeats the write, which its idempotence makes harmless.

    Cure: Idempotent producers, which transactional ones are.
    """
    chance = SeededChance(seed)
    total = 0
    for _ in portions(app, 6):
        with on_write(eosin, app).close(bytes=1 + chance.below(39)) as rule:
            app.commits(timeout=2)
            total += rule.fired
    if not total:
        raise NotExercised("the application sent no Produce: it wrote nothing")
    return None
