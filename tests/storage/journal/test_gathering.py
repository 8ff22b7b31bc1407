"""When the next group of the journal waits for company."""

from eosin.storage.journal.gathering import FIRST_PAUSE, LEAST_LOGS, LONGEST_PAUSE, Gathering


def pause_after(gathering: Gathering, *, came: int) -> int:
    """One wait behind a group of many logs, to which `came` logs come; how many groups begin at once after it."""
    assert gathering.waits(4 * LEAST_LOGS, 0)
    gathering.began(came)
    pause = 0
    while not gathering.waits(4 * LEAST_LOGS, 0):
        gathering.began(1)
        pause += 1
    gathering.began(4 * LEAST_LOGS)
    return pause


def test_few_logs_do_not_wait() -> None:
    gathering = Gathering()
    assert not gathering.waits(LEAST_LOGS - 2, 1)
    assert gathering.waits(LEAST_LOGS - 2, 2)


def test_a_wait_that_brings_company_is_followed_by_waits() -> None:
    gathering = Gathering()
    for _ in range(100):
        assert gathering.waits(LEAST_LOGS, 2)
        gathering.began(2 + LEAST_LOGS // 4)


def test_company_is_what_came_beside_those_that_were_there() -> None:
    gathering = Gathering()
    assert gathering.waits(LEAST_LOGS, 2 * LEAST_LOGS)
    gathering.began(2 * LEAST_LOGS)
    assert not gathering.waits(LEAST_LOGS, 2 * LEAST_LOGS)


def test_waits_that_bring_nothing_become_rare_and_those_that_do_frequent_again() -> None:
    alone = Gathering()
    assert alone.waits(LEAST_LOGS, 0)
    alone.began(1)
    waits = 0
    for _ in range(10 * LONGEST_PAUSE):
        waits += alone.waits(LEAST_LOGS, 0)
        alone.began(1)
    assert waits < 20
    gathering = Gathering()
    pauses = [pause_after(gathering, came=1) for _ in range(3)]
    assert pauses == [FIRST_PAUSE] * 3, "each is followed by one that pays"
