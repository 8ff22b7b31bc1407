"""PLAIN: passwords are checked in threads, against the store of SCRAM, and good ones are remembered for a while."""

import asyncio
import threading

import pytest
from manual_clock import ManualClock
from sasl_peer import PASSWORD, users
from waiting import HANG_S

from eosin.broker.api import CloseConnection
from eosin.broker.security.sasl import plain
from eosin.broker.security.sasl.exchanges import Authenticated
from eosin.broker.security.sasl.plain import MAX_WAITING, REMEMBERED_MS, PasswordChecks, PlainExchange
from eosin.protocol.sasl.plain import PlainLogin, plain_message
from eosin.protocol.sasl.scram_credentials import ScramCredential, is_password_of
from eosin.protocol.sasl.steps import Failure


class Counted:
    """Counts the checks that are really made, and in which thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        monkeypatch.setattr(plain, "is_password_of", self._check)

    def _check(self, credential: ScramCredential, password: str) -> bool:
        self.threads.append(threading.current_thread().name)
        self.go_on.wait(HANG_S)
        return is_password_of(credential, password)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


async def test_the_store_decides(counted: Counted) -> None:
    checks = PasswordChecks(users("alice"), ManualClock())
    exchange = PlainExchange(checks, {})
    assert await exchange.step(plain_message("alice", PASSWORD)) == Authenticated("alice")
    for user, password in (("alice", "wrong"), ("bob", PASSWORD)):
        assert isinstance(await PlainExchange(checks, {}).step(plain_message(user, password)), Failure)
    assert len(counted.threads) == 3, "who is not there costs as much as who is"
    assert all(name.startswith("eosin-password") for name in counted.threads)
    checks.close()


async def test_a_good_password_is_remembered_for_ten_minutes_and_until_it_changes(counted: Counted) -> None:
    store, clock = users("alice"), ManualClock()
    checks = PasswordChecks(store, clock)
    for _ in range(3):
        assert await checks.is_good(PlainLogin("alice", PASSWORD), {})
    assert len(counted.threads) == 1
    clock.advance(REMEMBERED_MS)
    assert await checks.is_good(PlainLogin("alice", PASSWORD), {})
    assert len(counted.threads) == 2
    store.put("alice", 1, users("bob").of("bob")[1]._replace(stored_key=b"x" * 32))
    assert not await checks.is_good(PlainLogin("alice", PASSWORD), {})
    assert not await checks.is_good(PlainLogin("alice", "wrong"), {})
    assert not await checks.is_good(PlainLogin("alice", "wrong"), {})
    assert len(counted.threads) == 5, "wrong ones are never remembered"
    checks.close()


async def test_a_password_of_the_settings_is_for_users_who_have_no_other(counted: Counted) -> None:
    checks = PasswordChecks(users("alice"), ManualClock())
    others = {"carol": "of the settings", "alice": "of the settings"}
    assert await checks.is_good(PlainLogin("carol", "of the settings"), others)
    assert not await checks.is_good(PlainLogin("carol", "wrong"), others)
    assert not await checks.is_good(PlainLogin("alice", "of the settings"), others)
    checks.close()


async def test_too_many_at_a_time_are_closed_and_not_called_wrong(counted: Counted) -> None:
    counted.go_on.clear()
    checks = PasswordChecks(users(), ManualClock())
    waiting = [asyncio.ensure_future(checks.is_good(PlainLogin("x", str(n)), {})) for n in range(MAX_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(CloseConnection):
        await checks.is_good(PlainLogin("x", "y"), {})
    checks.close()
    counted.go_on.set()
    await asyncio.wait(waiting, timeout=HANG_S)


async def test_a_user_who_is_deleted_during_the_check_does_not_get_in(counted: Counted) -> None:
    store = users("alice")
    checks = PasswordChecks(store, ManualClock())
    counted.go_on.clear()
    login = asyncio.ensure_future(checks.is_good(PlainLogin("alice", PASSWORD), {}))
    await asyncio.sleep(0)
    store.remove("alice", 1)
    counted.go_on.set()
    assert not await login
    checks.close()
