"""PLAIN: passwords are checked in threads, against the store of SCRAM, and good ones are remembered for a while."""

import asyncio
import threading

import pytest
from manual_clock import ManualClock
from sasl_peer import PASSWORD, users
from waiting import HANG_S, settled, until

from eosin.model.close_connection import CloseConnection
from eosin.model.credentials import StoredCredential
from eosin.protocol.sasl.plain import PlainLogin, plain_message
from eosin.protocol.sasl.scram_credentials import ScramCredential, credential_of, is_password_of
from eosin.protocol.sasl.steps import Failure, Mechanism
from eosin.security.sasl import plain
from eosin.security.sasl.check_turns import CheckTurns
from eosin.security.sasl.exchanges import Authenticated, Step
from eosin.security.sasl.lookup import DEFAULT_ITERATIONS
from eosin.security.sasl.plain import (
    ANSWER_MS,
    MAX_WAITING,
    REMEMBERED_MS,
    THREADS,
    PasswordChecks,
    PlainExchange,
)

HOME = "10.0.0"
"""The network that passwords come from."""


class Counted:
    """Counts the checks that are really made, and in which thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        self.credentials: list[ScramCredential] = []
        self.passwords: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        monkeypatch.setattr(plain, "is_password_of", self._check)

    def _check(self, credential: ScramCredential, password: str) -> bool:
        self.credentials.append(credential)
        self.passwords.append(password)
        self.threads.append(threading.current_thread().name)
        self.go_on.wait(HANG_S)
        return is_password_of(credential, password)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


async def outcome(checks: PasswordChecks, clock: ManualClock, user: str, password: str, **others: str) -> Step:
    """What an exchange comes to, however long it takes."""
    step = asyncio.ensure_future(PlainExchange(checks, others, HOME).step(plain_message(user, password)))

    def is_over() -> bool:
        clock.advance(ANSWER_MS)
        return step.done()

    await until(is_over)
    return step.result()


async def test_the_store_decides(counted: Counted) -> None:
    clock = ManualClock()
    checks = PasswordChecks(users("alice"), clock)
    assert await outcome(checks, clock, "alice", PASSWORD) == Authenticated("alice")
    for user, password in (("alice", "wrong"), ("bob", PASSWORD)):
        assert isinstance(await outcome(checks, clock, user, password), Failure)
    assert len(counted.threads) == 3, "who is not there costs as much as who is"
    assert all(name.startswith("eosin-password") for name in counted.threads)
    checks.close()


async def test_a_good_password_is_remembered_for_ten_minutes_and_until_it_changes(counted: Counted) -> None:
    store, clock = users("alice"), ManualClock()
    checks = PasswordChecks(store, clock)
    for _ in range(3):
        assert await checks.is_good(PlainLogin("alice", PASSWORD), {}, HOME)
    assert len(counted.threads) == 1
    clock.advance(REMEMBERED_MS)
    assert await checks.is_good(PlainLogin("alice", PASSWORD), {}, HOME)
    assert len(counted.threads) == 2
    store.put("alice", 1, users("bob").of("bob")[1]._replace(stored_key=b"x" * 32))
    assert not await checks.is_good(PlainLogin("alice", PASSWORD), {}, HOME)
    assert not await checks.is_good(PlainLogin("alice", "wrong"), {}, HOME)
    assert not await checks.is_good(PlainLogin("alice", "wrong"), {}, HOME)
    assert len(counted.threads) == 5, "wrong ones are never remembered"
    checks.close()


async def test_a_password_of_the_settings_is_for_users_who_have_no_other(counted: Counted) -> None:
    checks = PasswordChecks(users("alice"), ManualClock())
    others = {"carol": "of the settings", "alice": "of the settings"}
    assert await checks.is_good(PlainLogin("carol", "of the settings"), others, HOME)
    assert not await checks.is_good(PlainLogin("carol", "wrong"), others, HOME)
    assert not await checks.is_good(PlainLogin("alice", "of the settings"), others, HOME)
    checks.close()


async def test_every_failure_costs_the_same_work(counted: Counted) -> None:
    """Names cannot be tried out: users of the store, of the settings, and those who are not there."""
    clock, store = ManualClock(), users("old")
    made = credential_of(Mechanism.SCRAM_SHA_512, PASSWORD, b"s" * 24, DEFAULT_ITERATIONS)
    store.put("alice", 2, StoredCredential(made.salt, made.stored_key, made.server_key, made.iterations))
    checks = PasswordChecks(store, clock)
    for user in ("alice", "nobody", "carol"):
        assert isinstance(await outcome(checks, clock, user, "wrong", carol="of the settings"), Failure)
    work = {(each.mechanism, each.iterations) for each in counted.credentials}
    assert (len(counted.threads), work) == (3, {(Mechanism.SCRAM_SHA_512, DEFAULT_ITERATIONS)})
    checks.close()


@pytest.mark.parametrize("took_ms", [0, 3, ANSWER_MS - 1])
async def test_a_failure_is_answered_at_a_fixed_time_from_the_start_of_its_check(
    took_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    checks = PasswordChecks(users("alice"), clock)

    def check(credential: ScramCredential, password: str) -> bool:
        clock.pause(took_ms)
        return False

    monkeypatch.setattr(plain, "is_password_of", check)
    step = asyncio.ensure_future(PlainExchange(checks, {}, HOME).step(plain_message("alice", "wrong")))
    await until(lambda: clock.pending == 1)
    clock.advance(ANSWER_MS - took_ms - 1)
    await settled()
    assert not step.done()
    clock.advance(1)
    await settled()
    assert step.done()
    checks.close()


async def test_a_good_password_of_the_settings_is_remembered_too(counted: Counted) -> None:
    clock = ManualClock()
    checks = PasswordChecks(users(), clock)
    for _ in range(3):
        assert await checks.is_good(PlainLogin("carol", "of the settings"), {"carol": "of the settings"}, HOME)
    assert len(counted.threads) == 1
    assert not await checks.is_good(PlainLogin("carol", "of the settings"), {"carol": "changed"}, HOME)
    assert not await checks.is_good(PlainLogin("carol", "of the settings"), {}, HOME)
    checks.close()


async def test_too_many_at_a_time_are_closed_and_not_called_wrong(counted: Counted) -> None:
    counted.go_on.clear()
    checks = PasswordChecks(users(), ManualClock())
    waiting = [
        asyncio.ensure_future(checks.is_good(PlainLogin("x", str(n)), {}, HOME)) for n in range(THREADS + MAX_WAITING)
    ]
    await asyncio.sleep(0)
    with pytest.raises(CloseConnection):
        await checks.is_good(PlainLogin("x", "y"), {}, HOME)
    checks.close()
    counted.go_on.set()
    await asyncio.wait(waiting, timeout=HANG_S)


async def test_a_password_waits_for_one_of_each_other_network_however_many_of_these_wait(counted: Counted) -> None:
    counted.go_on.clear()
    checks = PasswordChecks(users("alice"), ManualClock())
    attack = [
        asyncio.ensure_future(checks.is_good(PlainLogin("alice", str(n)), {}, f"192.168.{n % 10}"))
        for n in range(THREADS + MAX_WAITING)
    ]
    await asyncio.sleep(0)
    login = asyncio.ensure_future(checks.is_good(PlainLogin("alice", PASSWORD), {}, HOME))
    await settled()
    assert not login.done()
    assert sum(each.done() for each in attack) == 1, "one of a network with many gives way to it"
    counted.go_on.set()
    assert await login
    # Behind those under way, and one of each other network; threads may begin two of them the other way round.
    assert counted.passwords.index(PASSWORD) < THREADS + 10 + THREADS
    await asyncio.gather(*attack, return_exceptions=True)
    checks.close()


@pytest.mark.virtual
async def test_a_turn_that_nobody_waits_for_any_more_goes_to_the_next_one() -> None:
    turns = CheckTurns(at_once=1, most_waiting=10)
    had: list[int] = []

    async def have(number: int) -> None:
        async with turns.turn(f"10.0.{number}"):
            had.append(number)
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(have(number)) for number in range(4)]
    await asyncio.sleep(0.5)
    tasks[1].cancel()
    await asyncio.sleep(0.5)
    tasks[2].cancel()  # in the moment in which it would have its turn, or has it
    await asyncio.wait(tasks)
    assert had[-1] == 3
    async with asyncio.timeout(5):
        await have(4)


async def test_those_who_wait_when_the_broker_stops_are_closed(counted: Counted) -> None:
    counted.go_on.clear()
    checks = PasswordChecks(users(), ManualClock())
    waiting = [asyncio.ensure_future(checks.is_good(PlainLogin("x", str(n)), {}, HOME)) for n in range(2 * THREADS)]
    await asyncio.sleep(0)
    checks.close()
    late = asyncio.ensure_future(checks.is_good(PlainLogin("x", "late"), {}, HOME))
    counted.go_on.set()
    ends = await asyncio.gather(*waiting, late, return_exceptions=True)
    assert [type(each) for each in ends[THREADS:]] == [CloseConnection] * (THREADS + 1)


async def test_a_user_who_is_deleted_during_the_check_does_not_get_in(counted: Counted) -> None:
    store = users("alice")
    checks = PasswordChecks(store, ManualClock())
    counted.go_on.clear()
    login = asyncio.ensure_future(checks.is_good(PlainLogin("alice", PASSWORD), {}, HOME))
    await asyncio.sleep(0)
    store.remove("alice", 1)
    counted.go_on.set()
    assert not await login
    checks.close()
