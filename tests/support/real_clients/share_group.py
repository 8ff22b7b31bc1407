"""A share group with a topic of its own, whose members are Java's share consumers."""

from broker_process import BrokerProcess
from confluent_kafka import Producer
from waiting import wait_until
from wire import unique

from real_clients import share
from real_clients.harness import Harness
from real_clients.share import Delivered, ShareMember
from real_clients.tools import KafkaScripts

SETTINGS = {
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.session.timeout.ms": "5000",
    "group.share.min.session.timeout.ms": "5000",
}
"""Of the broker: members are missed soon."""
EXPLICIT = {"share_acknowledgement_mode": "explicit"}


class Group:
    """A share group that reads a topic of its own from its start."""

    def __init__(self, broker: BrokerProcess, scripts: KafkaScripts) -> None:
        self.broker = broker
        self.scripts = scripts
        self.name = unique("group")
        self.topic = unique("topic")
        self.create_topic()
        self.configure("share.auto.offset.reset=earliest")

    def create_topic(self) -> None:
        """Make the topic, also once more after it was deleted."""
        self.scripts.run("kafka-topics", "--create", "--topic", self.topic, "--partitions", "2")

    def configure(self, setting: str) -> None:
        """Change a setting of the group."""
        whom = ("--entity-type", "groups", "--entity-name", self.name)
        self.scripts.run("kafka-configs", "--alter", *whom, "--add-config", setting)

    def member(self, process: Harness | None = None, **config: str) -> ShareMember:
        """One more member, by default in the one process for all of them."""
        launched = process or share.LAUNCHED.get()
        return ShareMember.opened(launched, self.broker.address, self.name, [self.topic], **config)

    def write(self, numbers: range, *, transactional_id: str | None = None) -> Producer:
        """Write numbers, even ones to partition 0; the producer, whose transaction is open if there is one."""
        config = {"bootstrap.servers": self.broker.address}
        if transactional_id is not None:
            config["transactional.id"] = transactional_id
        producer = Producer(config)
        if transactional_id is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for number in numbers:
            producer.produce(self.topic, str(number), partition=number % 2)
        producer.flush()
        return producer

    def starts(self) -> list[int]:
        """The offset of each partition before which everything is done, as Kafka's tool tells it."""
        rows = self.scripts.run("kafka-share-groups", "--describe", "--group", self.name, "--offsets").table
        return [int(row["START-OFFSET"]) for row in rows]


def numbers(found: list[Delivered]) -> set[int]:
    """Their values."""
    return {int(each.value) for each in found}


def poll_until(members: list[ShareMember], wanted: set[int], *, accepts: bool = True) -> list[Delivered]:
    """Poll all members in turn until what is wanted has come; each accepts what it got, and commits that."""
    found: list[Delivered] = []

    def is_there() -> bool:
        for member in members:
            got = member.poll()
            found.extend(got)
            for each in got if accepts else ():
                member.acknowledge(each, "ACCEPT")
            if got and accepts:
                assert set(member.commit().values()) == {None}
        return wanted <= numbers(found)

    wait_until(is_there, lambda: f"missing: {sorted(wanted - numbers(found))[:20]}")
    return found
