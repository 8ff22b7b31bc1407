"""Consumer groups: joining, leaving, static members, committed offsets."""

from concurrent.futures import ThreadPoolExecutor

from real_clients.base import Consumer
from real_clients.everyone import older_too
from scenario import Scenario
from waiting import wait_until


def _settle(consumers: list[Consumer], partitions: int) -> list[int]:
    """Poll all of them until they own `partitions` between them, each at least one; their shares."""
    with ThreadPoolExecutor(len(consumers)) as side_by_side:  # a rebalance needs all members at once

        def shares() -> list[int] | None:
            list(side_by_side.map(lambda consumer: consumer.read(1, timeout_s=0.4), consumers))
            owned = [consumer.assignment() for consumer in consumers]
            settled = all(owned) and len(set().union(*owned)) == sum(map(len, owned)) == partitions
            return [len(each) for each in owned] if settled else None

        return wait_until(shares, lambda: [consumer.assignment() for consumer in consumers])


def test_members_share_the_partitions_as_they_join_and_leave(scenario: Scenario) -> None:
    topic, group = scenario.topic(4), scenario.name("group")
    members = []
    for _ in range(2):
        member = scenario.client.consumer(scenario.bootstrap, group=group)
        member.subscribe([topic])
        members.append(member)
        _settle(members, 4)
    assert _settle(members, 4) == [2, 2]
    members.pop().close()
    assert _settle(members, 4) == [4]
    members.pop().close()


@older_too
def test_a_group_goes_on_from_its_committed_offsets(scenario: Scenario) -> None:
    topic, group = scenario.topic(), scenario.name("group")
    producer = scenario.producer()
    for number in range(10):
        producer.send(topic, b"%d" % number)
    producer.flush()
    first = scenario.client.consumer(scenario.bootstrap, group=group)
    first.subscribe([topic])
    assert [each.value for each in first.read(4)] == [b"0", b"1", b"2", b"3"]
    first.commit({(topic, 0): 4})
    first.close()
    second = scenario.consumer(group=group)
    second.subscribe([topic])
    assert [each.value for each in second.read(6)] == [b"%d" % number for number in range(4, 10)]


def test_a_static_member_comes_back_without_a_rebalance(scenario: Scenario) -> None:
    topic, group = scenario.topic(4), scenario.name("group")
    first = scenario.consumer(group=group, instance_id="instance-1")
    first.subscribe([topic])
    _settle([first], 4)
    second = scenario.client.consumer(scenario.bootstrap, group=group, instance_id="instance-2")
    second.subscribe([topic])
    _settle([first, second], 4)
    before = second.assignment()
    kept = first.assignment()
    second.close()
    again = scenario.consumer(group=group, instance_id="instance-2")
    again.subscribe([topic])
    _settle([first, again], 4)
    assert again.assignment() == before
    assert first.assignment() == kept
