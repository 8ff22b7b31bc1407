"""The kills of a campaign: each one hits somebody, or is still to come."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
from pipeline_copier import Kill, Killer

from eosin.protocol.keys import ApiKey

pytestmark = pytest.mark.virtual


def commits(key: ApiKey, _: Any) -> bool:
    return key is ApiKey.END_TXN


def request(key: ApiKey) -> Any:
    return SimpleNamespace(api=SimpleNamespace(key=key), request=None)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process ids that were killed."""
    found: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: found.append(pid))
    return found


async def test_a_kill_without_an_executor_stays_planned_until_there_is_one(killed: list[int]) -> None:
    killer, executors = Killer(), list[int]()
    killer.driver, killer.executor_only, killer.executors = SimpleNamespace(), True, lambda: executors  # type: ignore[assignment]
    killer.plan([Kill("before", commits), Kill("after", commits)])
    await killer.begun(request(ApiKey.END_TXN))
    assert (killer.happened, killed) == (0, [])
    executors.append(7)
    await killer.begun(request(ApiKey.END_TXN))
    await killer.handled(request(ApiKey.PRODUCE), None)
    assert (killer.happened, killed) == (1, [7])
    await killer.handled(request(ApiKey.END_TXN), None)
    await killer.handled(request(ApiKey.END_TXN), None)
    assert (killer.happened, killed) == (2, [7, 7])
