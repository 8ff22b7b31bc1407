"""The metadata follower with a quorum of three controllers: the leader dies, and another one is followed."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kraft_node import QuorumController
from toolchains import skipped_without

from eosin.broker.quorum.dialer import ControllerDialer
from eosin.broker.quorum.follower import MetadataFollower, ObserverConfig
from eosin.client.addresses import Address
from eosin.protocol.names import uuid_text
from eosin.runtime.clock import SystemClock

pytestmark = pytest.mark.full

VOTERS = (1000, 1001, 1002)
NODE_ID = 7
LIMIT_S = 60


class Voter(QuorumController):
    """One of several controllers, formatted with all of them (`--initial-controllers`) instead of `--standalone`."""

    def __init__(self, folder: Path, node_id: int) -> None:
        super().__init__(folder, node_id=node_id)
        self.directory_id = uuid_text(bytes((node_id & 0xFF | 1,)) + os.urandom(15))

    def belong(self, cluster_id: str, voters: "list[Voter]") -> None:
        """Be formatted with the others."""
        self.cluster_id = self._cluster_id = cluster_id
        self._settings["controller.quorum.bootstrap.servers"] = ",".join(voter.address for voter in voters)
        self._voters = ",".join(f"{voter.node_id}@{voter.address}:{voter.directory_id}" for voter in voters)

    def _filled_in(self, start: str) -> list[str]:
        words = [self._voters if word == "--standalone" else word for word in super()._filled_in(start)]
        if self._voters in words:
            words.insert(words.index(self._voters), "--initial-controllers")
        return words

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
    follower = MetadataFollower(config, clock=SystemClock(), dial=ControllerDialer("broker"))
    task = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(LIMIT_S):
            await follower.caught_up()
        first = follower.leader
        assert first is not None
        by_id = {voter.node_id: voter for voter in voters}
        assert follower.voters == {node_id: Address.parse(voter.address) for node_id, voter in by_id.items()}
        by_id[first.node_id].kill()
        await until(task, lambda: follower.leader is not None and follower.leader.epoch > first.epoch)
        second = follower.leader
        assert second is not None
        assert second.node_id != first.node_id
        assert Address(second.host, second.port) == Address.parse(by_id[second.node_id].address)
        offset = follower.published_offset
        await until(task, lambda: follower.published_offset > offset + 1)
        await asyncio.to_thread(by_id[first.node_id].start)
        by_id[second.node_id].kill()
        await until(task, lambda: follower.leader is not None and follower.leader.epoch > second.epoch)
        offset = follower.published_offset
        await until(task, lambda: follower.published_offset > offset + 1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(task: "asyncio.Task[None]", is_so: Callable[[], bool]) -> None:
    for _ in range(LIMIT_S * 100):
        if task.done():
            task.result()
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError("it did not come to be")
