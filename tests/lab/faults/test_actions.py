"""Each action at each of the APIs that matter most: that its fault fired, and what its client saw."""

from typing import Any

import pytest
from fake_peer import turns
from faulty_broker import APIS, FaultyBroker, faulty_broker
from msgspec.structs import replace

from eosin.lab.faults.armed import ArmedRule
from eosin.lab.faults.armed_rules import ArmedRules
from eosin.lab.history.requests import first_error, spelled
from eosin.network.request_hooks import ObservedRequest
from eosin.protocol.keys import ApiKey

pytestmark = pytest.mark.parametrize("key", APIS, ids=spelled)
BEAT = ApiKey.HEARTBEAT


def armed(rules: ArmedRules, key: ApiKey, action: str, function: Any = None, **fields: Any) -> ArmedRule:
    return rules.arm({"match": {"api": spelled(key)}, "do": {"action": action, **fields}}, function)


def fired(rule: ArmedRule) -> int:
    return rule.counting.fired


async def beat(broker: FaultyBroker) -> None:
    await broker.ask(BEAT, 3, broker.heartbeat())


async def test_an_error_is_answered_and_nothing_executed(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "error", code="NOT_COORDINATOR")
        broker.send(key)
        await turns()
        (answer,) = broker.peer.answers()
        assert (fired(rule), first_error(answer), broker.executed) == (1, "NOT_COORDINATOR", [])


async def test_an_error_after_is_a_lie_about_what_was_executed(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "error", code="NOT_COORDINATOR", after=True)
        broker.send(key)
        await turns()
        (answer,) = broker.peer.answers()
        assert (fired(rule), first_error(answer), broker.executed) == (1, "NOT_COORDINATOR", [key])


async def test_a_request_is_executed_after_its_delay(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "delay", ms=50)
        broker.send(key)
        await broker.clock.run(49)
        assert (fired(rule), broker.executed, broker.peer.answers()) == (1, [], [])
        await broker.clock.run(1)
        await turns()
        (answer,) = broker.peer.answers()
        assert (first_error(answer), broker.executed) == ("NONE", [key])


async def test_a_delayed_answer_is_executed_first(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        broker.rules.arm({"match": {"api": spelled(key)}, "at": "answer", "do": {"action": "delay", "ms": 50}})
        broker.send(key)
        await broker.clock.run(49)
        assert (broker.executed, broker.peer.answers()) == ([key], [])
        await broker.clock.run(1)
        await turns()
        assert [first_error(answer) for answer in broker.peer.answers()] == ["NONE"]


@pytest.mark.parametrize("point", ["request", "handled", "answer"])
async def test_what_is_held_goes_on_when_it_is_released(key: ApiKey, point: str) -> None:
    async with faulty_broker(key) as broker:
        rule = broker.rules.arm({"match": {"api": spelled(key)}, "at": point, "do": {"action": "hold", "name": "h"}})
        broker.send(key)
        await turns()
        assert (fired(rule), broker.executed) == (1, [] if point == "request" else [key])
        assert broker.peer.answers() == []
        broker.rules.rule("h").release()
        await turns()
        assert [first_error(answer) for answer in broker.peer.answers()] == ["NONE"]
        assert broker.executed == [key]


async def test_a_lost_request_is_not_executed_and_its_connection_is_reset(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "lose", what="request")
        broker.send(key)
        await turns()
        assert (fired(rule), broker.executed, broker.peer.answers()) == (1, [], [])
        assert broker.peer.transport.aborted
        assert broker.peer.connection.is_gone


async def test_a_request_is_lost_with_a_connection_that_stalls(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "lose", what="request", how="stall")
        broker.send(key)
        await turns()
        assert (fired(rule), rule.held, broker.executed) == (1, 1, [])
        assert not broker.peer.connection.is_gone
        broker.peer.transport.lose()  # it has waited long enough
        await turns()
        assert (rule.held, broker.executed) == (0, [])


@pytest.mark.parametrize("how", ["reset", "fin"])
async def test_a_lost_answer_leaves_the_client_without_knowing_what_was_executed(key: ApiKey, how: str) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "lose", what="answer", how=how)
        broker.send(key)
        await turns()
        assert (fired(rule), broker.executed, broker.peer.answers()) == (1, [key], [])
        assert broker.peer.transport.aborted is (how == "reset")
        assert broker.peer.connection.is_gone


async def test_a_stalled_answer_and_those_behind_it_come_with_the_release(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "lose", what="answer", how="stall")
        broker.send(key)
        broker.peer.send(BEAT, 3, broker.heartbeat())
        await turns()
        assert (fired(rule), broker.executed, broker.peer.answers()) == (1, [key, BEAT], [])
        rule.release()
        await turns()
        assert [first_error(answer) for answer in broker.peer.answers()] == ["NONE", "UNKNOWN_MEMBER_ID"]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_duplicate_is_executed_twice_and_answered_once(key: ApiKey, elsewhere: bool) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "duplicate", elsewhere=elsewhere, gap_ms=20)
        broker.send(key)
        await turns()
        assert [first_error(answer) for answer in broker.peer.answers()] == ["NONE"]
        assert (fired(rule), broker.executed) == (1, [key])
        await broker.clock.run(20)
        await turns()
        assert broker.executed == [key, key]
        assert broker.peer.answers() == []


async def test_what_follows_a_duplicate_on_its_connection_waits_and_elsewhere_overtakes_it(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        armed(broker.rules, key, "duplicate", gap_ms=20)
        broker.send(key)
        await turns()
        broker.peer.send(BEAT, 3, broker.heartbeat())
        await turns()
        await beat(broker)
        assert broker.executed == [key, BEAT]
        await broker.clock.run(20_000)  # JoinGroup waits for the member that it has made
        await turns()
        assert broker.executed == [key, BEAT, key, BEAT]


async def test_a_reordered_request_is_executed_behind_another_one(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "reorder", behind={"api": "Heartbeat"})
        broker.send(key)
        await turns()
        assert (fired(rule), broker.executed) == (1, [])
        await beat(broker)
        assert broker.executed == [BEAT, key]
        assert [first_error(answer) for answer in broker.peer.answers()] == ["NONE"]


async def test_a_reordered_request_goes_on_when_nothing_comes(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        armed(broker.rules, key, "reorder", behind={"api": "Heartbeat"}, timeout_ms=100)
        broker.send(key)
        await broker.clock.run(100)
        await turns()
        assert broker.executed == [key]


async def test_a_detour_resets_the_connection_and_executes_the_request_later(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "detour", behind={"api": "Heartbeat"})
        broker.send(key)
        await turns()
        assert (fired(rule), broker.executed, broker.peer.connection.is_gone) == (1, [], True)
        await beat(broker)
        assert broker.executed == [BEAT, key]
        assert broker.peer.answers() == []


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_closed_connection_has_executed_nothing(key: ApiKey, how: str) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "close", how=how)
        broker.send(key)
        await turns()
        assert (fired(rule), broker.executed, broker.peer.answers()) == (1, [], [])
        assert broker.peer.transport.aborted is (how == "rst")


async def test_an_answer_breaks_off_after_some_bytes(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "close", bytes=6)
        broker.send(key)
        await turns()
        assert (fired(rule), broker.executed) == (1, [key])
        assert (len(broker.peer.transport.sent), broker.peer.connection.is_gone) == (6, True)


async def test_an_answer_trickles(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "trickle", bytes=5, every_ms=10)
        broker.send(key)
        await turns()
        assert (fired(rule), len(broker.peer.transport.sent)) == (1, 5)
        await broker.clock.run(10)
        await turns()
        assert len(broker.peer.transport.sent) == 10
        await broker.clock.run(1000)
        await turns()
        assert [first_error(answer) for answer in broker.peer.answers()] == ["NONE"]
        broker.peer.send(BEAT, 3, broker.heartbeat())
        await turns()
        assert len(broker.peer.answers()) == 1


async def test_a_throttled_client_is_told_and_not_read(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "throttle", ms=300)
        broker.send(key)
        await turns()
        (answer,) = broker.peer.answers()
        assert (fired(rule), answer.throttle_time_ms, first_error(answer)) == (1, 300, "NONE")
        broker.peer.send(BEAT, 3, broker.heartbeat())
        await turns()
        assert broker.peer.answers() == []
        await broker.clock.run(300)
        await turns()
        assert len(broker.peer.answers()) == 1


async def test_an_answer_is_rewritten_by_a_function(key: ApiKey) -> None:
    async with faulty_broker(key) as broker:
        rule = armed(broker.rules, key, "rewrite", lambda seen: replace(seen.response, throttle_time_ms=77))
        broker.send(key)
        await turns()
        (answer,) = broker.peer.answers()
        assert (fired(rule), answer.throttle_time_ms, broker.executed) == (1, 77, [key])


@pytest.mark.parametrize("point", ["request", "handled", "answer"])
async def test_a_function_is_called_at_a_point(key: ApiKey, point: str) -> None:
    seen: list[tuple[ApiKey, list[ApiKey]]] = []
    async with faulty_broker(key) as broker:

        async def note(observed: ObservedRequest) -> None:
            seen.append((observed.api.key, list(broker.executed)))

        broker.rules.arm({"match": {"api": spelled(key)}, "at": point, "do": {"action": "call"}}, note)
        broker.send(key)
        await turns()
        assert seen == [(key, [] if point == "request" else [key])]
        assert len(broker.peer.answers()) == 1
