"""The driver of client libraries in other languages, with a harness that does as it is told."""

import sys
import threading
from collections.abc import Iterator

import pytest
from real_clients.base import ClientRefused
from real_clients.harness import Command, Harness, HarnessFailed, HarnessRefused, Launched
from real_clients.remote import RemoteClient
from waiting import HANG_S

# Answers in the order that `say` asks for, so that a test decides what overtakes what.
OBEDIENT = """
import json, sys
held = []
for line in sys.stdin:
    asked = json.loads(line)
    args, answer = asked["args"], {"id": asked["id"]}
    if asked["op"].endswith(".held"):
        held.append(answer)
        continue
    if asked["op"].endswith(".die"):
        print("out of luck", file=sys.stderr)
        sys.exit(3)
    if asked["op"].endswith(".babble"):
        print("hello", flush=True)
        continue
    answer.update(args or {"result": None})
    for each in [answer, *held]:
        print(json.dumps(each), flush=True)
    held = []
"""


def command() -> Command:
    return Command([sys.executable, "-c", OBEDIENT])


@pytest.fixture
def harness() -> Iterator[Harness]:
    made = Harness("obedient", command())
    yield made
    made.close()


def test_a_harness_may_answer_calls_in_any_order(harness: Harness) -> None:
    found: list[object] = []
    blocked = threading.Thread(target=lambda: found.append(harness.call("producer.held", "p1")))
    blocked.start()
    while not harness._waiting:
        pass
    assert harness.call("producer.commit", "p2", {"result": 2}) == 2
    blocked.join(HANG_S)
    assert found == [None]


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("PRODUCER_FENCED", "fatal", "fenced"),
        ("INVALID_PRODUCER_EPOCH", "fatal", "fenced"),
        ("INVALID_PRODUCER_EPOCH", "abortable", "other"),
        ("INVALID_TRANSACTION_TIMEOUT", "fatal", "timeout"),
        ("ILLEGAL_GENERATION", "abortable", "group"),
        ("UNKNOWN_PRODUCER_ID", "abortable", "other"),
    ],
)
def test_an_error_of_a_harness_says_what_the_application_must_do(
    harness: Harness, name: str, kind: str, expected: str
) -> None:
    error = {"kind": kind, "name": name, "code": 1, "message": "why"}
    with pytest.raises(ClientRefused) as refused:
        harness.call("producer.commit", "p1", {"error": error})
    assert refused.value.kind == expected
    assert isinstance(refused.value, HarnessRefused)
    assert (refused.value.error.kind, refused.value.error.name) == (kind, name)


def test_a_call_that_the_library_lacks_raises_not_implemented(harness: Harness) -> None:
    error = {"kind": "refused", "name": "UNSUPPORTED_CALL", "code": None, "message": "no such call"}
    with pytest.raises(NotImplementedError, match="no such call"):
        harness.call("admin.delete_group", "a1", {"error": error})


@pytest.mark.parametrize(("op", "told"), [("die", "out of luck"), ("babble", "not an answer: hello")])
def test_a_dead_harness_fails_every_call_with_its_last_output(harness: Harness, op: str, told: str) -> None:
    failed: list[BaseException] = []

    def held() -> None:
        try:
            harness.call("producer.held", "p1")
        except HarnessFailed as failure:
            failed.append(failure)

    blocked = threading.Thread(target=held)
    blocked.start()
    while not harness._waiting:
        pass
    with pytest.raises(HarnessFailed, match=told):
        harness.call(f"producer.{op}", "p2")
    blocked.join(HANG_S)
    assert told in str(failed[0])
    with pytest.raises(HarnessFailed, match=told):
        harness.call("producer.commit", "p1")


def test_a_client_whose_harness_died_gets_a_new_one() -> None:
    launched = Launched("obedient", command)
    client = RemoteClient("obedient", launched)
    producer = client.producer("nowhere:1")
    with pytest.raises(HarnessFailed):
        launched.get().call("producer.die", "p1")
    producer.close()
    client.producer("nowhere:1")
    launched.get().close()
