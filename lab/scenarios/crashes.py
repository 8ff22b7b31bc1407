"""Incidents of the broker: losses of power, kills at the worst moment, restarts, disks."""

from contextlib import suppress

from eosin.lab.broker_api import BrokerApi
from eosin.lab.common.errors import LabError
from eosin.lab.faults.faces import Rule
from eosin.lab.scenarios.scenario import App, Expectation, NotExercised
from eosin.lab.scenarios.steps import DOWN_S, LASTS_S, fired, now, on_end, on_write, requests_since
from eosin.runtime.chance import SeededChance

_CUTS = 12
_POINTS = ("appended", "durable", "prepared", "marker", "complete")
_RESTARTS = 5
_FULL_S = 2.0
_WRITES = ("Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "InitProducerId")
_NOT_OF_A_DISK = ("NONE", "CONCURRENT_TRANSACTIONS")
"""Answers that no full disk gives; under TV2 a coordinator that cannot add a partition makes it NOT_ENOUGH_REPLICAS."""
_CUT_BYTES = 32
_CUTS_AT_ONCE = 4
_MS = 1000


def power_cut(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker's machine loses its power, again and again, in the middle of transactions.

    Origin: power cuts after which a producer is fenced, or a half of a transaction is there.

    Steps: Twelve losses of power, at least two at each of these points, in an order that the seed chooses: a batch
    appended, or durable, the outcome prepared, one marker written, all written. The broker starts again each time, once
    after more than a second.

    Healthy: It goes on after each start; nothing is lost and nothing is there twice.

    Cure: Retry what is retriable; rebuild the producer after the rest, and read on from the committed offsets.
    """
    chance = SeededChance(seed)
    cuts = 0
    size = max(1, app.left // _CUTS)
    points = [*_POINTS, *_POINTS, *(_POINTS[chance.below(len(_POINTS))] for _ in range(_CUTS - 2 * len(_POINTS)))]
    away_ms: dict[str, float] = {"marker": DOWN_S * _MS}
    while points:
        point = points.pop(chance.below(len(points)))
        match = {"topic": app.outputs[0]} if point in ("appended", "durable") else {}
        # A call that the loss of power hits has no answer.
        draft = eosin.faults.on(**match).at(point).optional()
        with suppress(LabError), _untold(eosin), draft.crash("power", restart_after_ms=away_ms.pop(point, 0)) as rule:
            app.feed(size)
            app.commits(timeout=1)
            cuts += rule.fired
    if not cuts:
        raise NotExercised("no transaction was under way: the application wrote nothing")
    return Expectation(notes=(f"{cuts} losses of power",))


def kill_between_markers(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker dies when one of the partitions of a transaction knows the outcome.

    Origin: redpanda#9571 and its family.

    Steps: The broker is killed after the first marker of a transaction, before it has told the
    application, and starts again after more than a second.

    Healthy: All partitions end alike; it goes on.

    Cure: None is needed in an application that retries.
    """
    draft = eosin.faults.on(transactional_id=app.transactional_ids[-1]).at("marker").optional()
    with _untold(eosin), draft.crash("kill", restart_after_ms=DOWN_S * _MS) as rule:
        app.feed()
        fired(rule, "EndTxn")
    return None


def kill_after_prepare(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker dies when it has decided an outcome and told nobody.

    Origin: the roll-forward of every coordinator.

    Steps: The broker is killed when the outcome is durable and no marker is written, and starts again after more than a
    second.

    Healthy: The transaction is committed once, and visible after the start.

    Cure: None is needed in an application that commits again when it had no answer.
    """
    draft = eosin.faults.on(transactional_id=app.transactional_ids[-1]).at("prepared").optional()
    with _untold(eosin), draft.crash("kill", restart_after_ms=DOWN_S * _MS) as rule:
        app.feed()
        fired(rule, "EndTxn")
    return None


def restart_loop(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker restarts again and again, as in a rolling update that goes wrong.

    Origin: rolling restarts.

    Steps: Five restarts with a portion of the feed before each: clean ones, and in turns with them kills, each at a
    commit that is not executed any more; the broker is away for more than a second then, and for a second and a half
    more its coordinator answers commits COORDINATOR_LOAD_IN_PROGRESS.

    Healthy: It makes progress between them.

    Cure: Retry, without a limit on the number of attempts; limit the time instead.
    """
    size = max(1, app.left // _RESTARTS)
    for number in range(_RESTARTS):
        if number % 2 == 0:
            app.feed(size)
            eosin.restart()
        else:
            with on_end(eosin).hold() as rule:
                app.feed(size)
                fired(rule, "EndTxn")
                eosin.crash(restart=False)
                app.goes_on(DOWN_S)
                loading = on_end(eosin).always().error("COORDINATOR_LOAD_IN_PROGRESS")
                eosin.start()
                app.goes_on(LASTS_S)
                loading.remove()
        app.commits(timeout=2)
    return None


def full_disk(eosin: BrokerApi, app: App, seed: int) -> Expectation | None:
    """The broker's disk is full for some seconds.

    Origin: full disks.

    Steps: No room for two seconds while the application writes; then there is room again.

    Healthy: It retries, and loses nothing that was acknowledged.

    Cure: KAFKA_STORAGE_ERROR is retriable: try again for as long as the delivery may take.
    """
    place = now(eosin)
    with on_write(eosin, app).hold() as rule:
        app.feed()
        fired(rule, "Produce")
        eosin.disk.full()
        rule.release()
    app.goes_on(_FULL_S)
    written = requests_since(eosin, place, *_WRITES)
    eosin.disk.free()
    met = next((each for each in written if each.code not in _NOT_OF_A_DISK), None)
    if met is None:
        raise NotExercised("the application wrote nothing while the disk was full")
    return Expectation(notes=(f"on the full disk {met.api} was answered {met.code or 'not at all'}",))


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

    Steps: The connection ends after one byte of the answer to a write, then after two, and so on up to 32.

    Healthy: It connects again and repeats the write, which its idempotence makes harmless.

    Cure: Idempotent producers, which transactional ones are.
    """
    size = max(1, app.left // (_CUT_BYTES // _CUTS_AT_ONCE))
    cut = 0
    for first in range(1, _CUT_BYTES, _CUTS_AT_ONCE):
        rules = [on_write(eosin, app).close(bytes=first + each) for each in range(_CUTS_AT_ONCE)]
        app.feed(size)
        fired(rules[0], "Produce")
        with suppress(NotExercised):
            fired(rules[-1], "Produce")
        cut += sum(each.fired for each in rules)
        for each in rules:
            each.remove()
        app.catches_up()
    return Expectation(notes=(f"{cut} answers ended early",))


def _untold(eosin: BrokerApi) -> Rule:
    """Hold the answer to a commit, so that nobody knows the outcome when the broker ends."""
    return on_end(eosin).at("answer").hold()
