"""Of the instances of a producer one at a time has the word."""

from simulation.case import Case, Violations
from simulation.history import NEVER, Introduction


def pairs_are_given_once(case: Case) -> Violations:
    """No two instances get the same producer id and epoch, and a later one gets a higher epoch."""
    owner: dict[tuple[int, int], str] = {}
    newest: dict[int, tuple[int, Introduction]] = {}
    for each in sorted(case.history.introductions, key=lambda each: each.answered):
        if each.answered == NEVER or each.error:
            continue
        pair = (each.producer_id, each.producer_epoch)
        if owner.setdefault(pair, each.instance) != each.instance:
            yield f"{each.instance} and {owner[pair]} were both given {pair}"
        epoch, before = newest.get(each.producer_id, (-1, each))
        if each.producer_epoch < epoch and before.answered < each.asked:
            yield f"{each.instance} was given {pair} after {before.instance} was given epoch {epoch}"
        newest[each.producer_id] = max((each.producer_epoch, each), (epoch, before), key=lambda known: known[0])


def zombies_do_not_commit(case: Case) -> Violations:
    """Once a new instance has its epoch, an older one can no longer commit what it asks for from then on."""
    for transaction in case.history.transactions:
        if not (transaction.commit and transaction.acknowledged):
            continue
        since = case.introduction_of(transaction).answered
        for each in case.introductions_of_others(transaction):
            if each.instance in transaction.ended_by:
                continue
            if since < each.asked and each.answered < transaction.end_asked and not each.error:
                yield f"{transaction.name} was committed after {each.instance} had taken over"


def producers_end_for_a_reason(case: Case) -> Violations:
    """Only another instance ends a producer, whatever times out, fails over, or comes late (transactions.md 12.3)."""
    history = case.history
    if history.ids_expire or not history.recovers:
        return
    for ending in history.endings:
        of_the_id = [each for each in history.introductions if each.transactional_id == ending.transactional_id]
        since = min(each.asked for each in of_the_id if each.instance == ending.instance)
        is_replaced = any(
            (each.answered > since or each.lost) and each.asked < ending.moment
            for each in of_the_id
            if each.instance != ending.instance or each.lost
        )
        if not is_replaced:
            yield f"{ending.instance} was ended for no reason: {ending.error}"


RULES = (pairs_are_given_once, zombies_do_not_commit, producers_end_for_a_reason)
