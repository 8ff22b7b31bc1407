"""A quorum of three controllers: the leader dies, and another one is followed; all of them are replaced at run time
(KIP-853)."""

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cluster_topics import ClusterTopics
from committing import Committing, read_all
from joined_broker import JoinedBroker, replicated
from kafka_releases import REFERENCE, SECOND
from kraft_node import QuorumController
from toolchains import skipped_without
from waiting import HANG_S, until, wait_until

from eosin.client.addresses import Address
from eosin.client.peer import LinkDialer
from eosin.cluster.quorum.follower import MetadataFollower, ObserverConfig
from eosin.protocol.names import uuid_text
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.full

VOTERS = (1000, 1001, 1002)
NEWEST_LEVEL = 33
NODE_ID = 7


class Voter(QuorumController):
    """One of several controllers, formatted with all of them (`--initial-controllers`) instead of `--standalone`."""

    def __init__(self, folder: Path, node_id: int, *, is_initial: bool = True, release: str = REFERENCE) -> None:
        """One that is not there from the beginning is an observer until somebody adds it."""
        super().__init__(folder, node_id=node_id, by_tool=True, release=release)
        self._is_initial = is_initial
        self.directory_id = uuid_text(bytes((node_id & 0xFF | 1,)) + os.urandom(15))

    def belong(self, cluster_id: str, voters: "list[Voter]") -> None:
        """Be formatted with the others."""
        self.cluster_id = self._cluster_id = cluster_id
        self._settings["controller.quorum.bootstrap.servers"] = ",".join(voter.address for voter in voters)
        self._voters = ",".join(f"{voter.node_id}@{voter.address}:{voter.directory_id}" for voter in voters)

    def _filled_in(self, start: str) -> list[str]:
        words = super()._filled_in(start)
        if "--standalone" in words:
            at = words.index("--standalone")
            words[at : at + 1] = (
                ["--initial-controllers", self._voters] if self._is_initial else ["--no-initial-controllers"]
            )
        return words

    @property
    def stored_directory_id(self) -> str:
        """The id that its directory was formatted with."""
        return dict(
            line.split("=", 1)
            for line in (self.folder / "data" / "meta.properties").read_text().splitlines()
            if "=" in line
        )["directory.id"]

    def run(self, *command: str) -> str:
        return self._cluster_id if command[1:] == ("random-uuid",) else super().run(*command)


@pytest.fixture(scope="module")
def voters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Voter]]:
    """Three controllers that have elected one of them."""
    folder = tmp_path_factory.mktemp("voters")
    with skipped_without():
        made = [Voter(folder / str(node_id), node_id) for node_id in VOTERS]
    cluster_id = uuid_text(b"\1" + os.urandom(15))
    try:
        for voter in made:
            voter.belong(cluster_id, made)
        for voter in made:
            voter.start()
        yield made
    finally:
        for voter in made:
            voter.kill()


async def test_another_voter_is_followed_when_the_leader_dies(voters: list[Voter]) -> None:
    """cluster.md 2.1 and 3.2"""
    config = ObserverConfig(
        cluster_id=voters[0].cluster_id,
        node_id=NODE_ID,
        directory_id=bytes(range(16)),
        listener="CONTROLLER",
        bootstrap=tuple(Address.parse(voter.address) for voter in voters[:2]),
    )
    follower = MetadataFollower(config, clock=SystemClock(), dial=LinkDialer("broker"))
    task = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(HANG_S):
            await follower.caught_up()
        first = follower.leader
        assert first is not None
        by_id = {voter.node_id: voter for voter in voters}
        assert follower.voters == {node_id: Address.parse(voter.address) for node_id, voter in by_id.items()}
        by_id[first.node_id].kill()
        await until_so(task, lambda: follower.leader is not None and follower.leader.epoch > first.epoch)
        second = follower.leader
        assert second is not None
        assert second.node_id != first.node_id
        assert Address(second.host, second.port) == Address.parse(by_id[second.node_id].address)
        offset = follower.published_offset
        await until_so(task, lambda: follower.published_offset > offset + 1)
        await asyncio.to_thread(by_id[first.node_id].start)
        by_id[second.node_id].kill()
        await until_so(task, lambda: follower.leader is not None and follower.leader.epoch > second.epoch)
        offset = follower.published_offset
        await until_so(task, lambda: follower.published_offset > offset + 1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.long
def test_a_broker_stays_when_the_controllers_that_it_was_started_with_are_replaced_through_it(tmp_path: Path) -> None:
    """cluster.md 3.4 and 5.1: Kafka's tool adds and removes voters by way of an Eosin broker."""
    with skipped_without():
        first, second = (Voter(tmp_path / str(node_id), node_id) for node_id in VOTERS[:2])
    cluster_id = uuid_text(b"\1" + os.urandom(15))
    fresh = Voter(tmp_path / "fresh", 1009, is_initial=False)
    with ExitStack() as stack:
        for voter in (first, second, fresh):
            voter.belong(cluster_id, [first, second])
            stack.enter_context(voter)
        broker = stack.enter_context(JoinedBroker(tmp_path / "broker", first, node_id=1))

        def quorum(*arguments: str) -> tuple[int, str]:
            return fresh.outcome("kafka-metadata-quorum.sh", "--bootstrap-server", broker.address, *arguments)

        add = ("--command-config", str(fresh.properties), "add-controller")
        code, said = quorum(*add)
        assert (code, "Added controller 1009" in said) == (0, True), said
        code, said = quorum(*add)
        assert (code, "is already part of the set of voters" in said) == (1, True), said
        for voter in (first, second):
            of = ("--controller-id", str(voter.node_id), "--controller-directory-id", voter.stored_directory_id)
            code, said = quorum("remove-controller", *of)
            assert (code, "Removed" in said) == (0, True), said
            voter.stop()
            assert ClusterTopics(broker.address).create((1,)), "the broker has found who leads now"
        code, said = quorum("remove-controller", *of)
        assert (code, "Cannot remove voter" in said) == (1, True), said
        unregister = ("unregister-controller", "--bootstrap-server", broker.address, "--id", str(second.node_id))
        code, said = fresh.outcome("kafka-cluster.sh", *unregister)
        assert (code, "no longer registered" in said) == (0, True), said
        code, said = fresh.outcome("kafka-cluster.sh", *unregister)
        assert (code, "ControllerIdNotRegistered" in said) == (1, True), said
        code, said = quorum("describe", "--status")
        assert re.findall(r'"id": (\d+)', said.partition("CurrentVoters")[2].partition("\n")[0]) == ["1009"]
        assert broker.stop() == 0


@pytest.mark.long
def test_controllers_are_upgraded_one_by_one_under_a_client_that_commits(tmp_path: Path) -> None:
    """cluster.md 1.6 and 1.7: from the release before to the reference, then the level of the metadata."""
    with skipped_without():
        voters = [Voter(tmp_path / str(node_id), node_id, release=SECOND) for node_id in VOTERS]
    cluster_id = uuid_text(b"\1" + os.urandom(15))
    addresses = ",".join(voter.address for voter in voters)
    settings = {**replicated(2), "controller.quorum.bootstrap.servers": addresses}
    with ExitStack() as stack:
        for voter in voters:
            voter.belong(cluster_id, voters)
            stack.enter_context(voter)
        first, second, third = (
            JoinedBroker(tmp_path / f"broker-{node_id}", voters[0], node_id=node_id, settings=settings)
            for node_id in (1, 2, 3)
        )
        stack.enter_context(first)
        stack.enter_context(second)
        brokers = f"{first.address},{second.address}"
        topic = ClusterTopics(brokers).create((1, 2))
        committing = Committing(brokers, topic)
        committing.progress()
        for voter in voters:
            voter.stop()
            voter.release = REFERENCE
            voter.start()
            committing.progress()
            assert ClusterTopics(brokers).create((2, 1)), "the quorum has a leader"

        def upgrade() -> bool:
            words = ("--bootstrap-server", brokers, "upgrade", "--feature", f"metadata.version={NEWEST_LEVEL}")
            code, said = voters[0].outcome("kafka-features.sh", *words)
            assert code == 0 or "RegisterController" in said or "controller" in said.lower(), said
            return code == 0

        wait_until(upgrade, "the controllers do not support the level", every_s=1)
        with third:  # its registration is a record at the new level
            newer = ClusterTopics(f"{brokers},{third.address}").create((3, 2, 1))
            later = Committing(third.address, newer)
            later.progress()
            sent_later = later.stop()
            assert read_all(third.address, newer, len(sent_later)) == sent_later
        committing.progress()
        sent = committing.stop()
        assert read_all(brokers, topic, len(sent)) == sent
        assert first.stop() == second.stop() == 0


async def until_so(task: "asyncio.Task[None]", is_so: Callable[[], bool]) -> None:
    """Wait until `is_so`, or fail with the task."""

    def shown() -> bool:
        if task.done():
            task.result()
        return is_so()

    await until(shown)
