"""A crash, and what the next start reads: through the bytes of the records, by the code that reads them."""

from functools import lru_cache

from eosin.coordinator.transactions.log.encoder import encode_batch
from eosin.coordinator.transactions.log.records import CorruptTransactionLog, replay
from eosin.coordinator.transactions.rules.events import TransactionLoaded
from eosin.coordinator.transactions.rules.state import TransactionState, Txn
from model_checker.coordinating import decide_on, judge_record, told
from model_checker.step import Step
from model_checker.values import NO_TAG, TRANSACTIONAL_ID, Coordinator
from model_checker.violation import STABLE, Violation


def crash(step: Step, kept: int) -> None:
    """The process ends, with `kept` of the records on the disk that were not known to be; the next one loads them."""
    before = step.coordinator
    survivors = before.tail[:kept]
    durable = survivors[-1] if survivors else before.durable
    step.coordinator = Coordinator(
        epoch=before.epoch + 1, next_producer_id=before.next_producer_id, durable=durable, tag=NO_TAG
    )
    for each in survivors:
        if each.txn is not None and each.txn.state is TransactionState.PREPARE_COMMIT:
            judge_record(step)
    if durable is None or durable.txn is None:
        step.note("nothing is known of the id")
        return
    chain = (before.durable, *survivors) if before.durable is not None else survivors
    txn = _reloaded(tuple(each.txn for each in chain if each.txn is not None), step.world.bounds.server_version)
    step.note(f"it reads {told(txn)}")
    step.coordinator = step.coordinator._replace(txn=txn, tag=durable.tag)
    decide_on(step, TransactionLoaded(), None)


@lru_cache(maxsize=100_000)
def _reloaded(txns: tuple[Txn, ...], transaction_version: int) -> Txn:
    """What a start reads out of these records."""
    known: dict[str, Txn] = {}
    try:
        for txn in txns:
            replay(encode_batch([txn], now_ms=0, transaction_version=transaction_version), known)
    except CorruptTransactionLog as error:
        raise Violation(STABLE, f"the log is not believed after a crash: {error}") from error
    return known[TRANSACTIONAL_ID]
