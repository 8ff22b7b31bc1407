"""The metadata follower: it carries out what `Observer` decides, and publishes the images that come of it.

    follower = MetadataFollower(config, clock=clock, dial=LinkDialer("broker-7"), supported={...})
    follower.on_publication.append(cluster.publish_in_steps)
    task = asyncio.create_task(follower.run())
    await follower.caught_up()

Always true: an image is published at the end of a batch, never within a transaction of the controller, only when
everything in it is committed, and when everybody has followed the one before (cluster.md 3.6). Records are read, images
compared and publications followed in slices of `SLICE_MS`, so that nothing holds up the event loop (cluster.md 2.10).
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeVar

from eosin.client.addresses import Address
from eosin.client.errors import AuthenticationFailed, ClientError
from eosin.client.peer import Dial, Peer
from eosin.cluster.quorum.leader import ActiveController
from eosin.cluster.quorum.observer import (
    Apply,
    Disconnect,
    Effect,
    Effects,
    Follow,
    Observer,
    ObserverConfig,
    Pause,
    Restore,
    SendRequest,
)
from eosin.cluster.quorum.rules.batches import LogBatch, data_records
from eosin.cluster.quorum.rules.errors import QuorumError, QuorumLost, QuorumUnreadable
from eosin.cluster.quorum.rules.feature_levels import addresses_text, unsupported_levels
from eosin.cluster.quorum.rules.image import EMPTY, ClusterImage, ImageDelta
from eosin.cluster.quorum.rules.replay import Replay
from eosin.runtime.clock import Clock

__all__ = [
    "ActiveController",
    "MetadataFollower",
    "ObserverConfig",
    "QuorumError",
    "QuorumLost",
    "QuorumUnreadable",
]

_LOG: Final = logging.getLogger(__name__)

SLICE_MS: Final = 20
"""Longest time that the event loop is held, a record or a step more or less."""
_RECORDS_A_STEP: Final = 64
T = TypeVar("T")


START_PATIENCE_MS: Final = 15_000
"""Controllers that were started together with this broker need so long: until then nothing is wrong."""

_REFUSED_RETRY_MS: Final = 1000
"""Before another attempt where one side has refused a certificate or a login."""


class MetadataFollower:
    """One broker's copy of the cluster's metadata, kept up to date."""

    def __init__(
        self,
        config: ObserverConfig,
        *,
        clock: Clock,
        dial: Dial,
        supported: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """`supported` are the lowest and the highest level of each feature that this broker knows; another one is 0 to
        0 (cluster.md 1.6). None supports whatever there is. Raises QuorumLost when this broker's id is a voter's."""
        self._observer = Observer(config)
        self._controllers = addresses_text(config.bootstrap or config.voters.values())
        self._clock = clock
        self._dial = dial
        self._supported = supported
        self._replay = Replay()
        self._has_records = False
        self._image = EMPTY
        self._leader: ActiveController | None = None
        self._peer: Peer | None = None
        self._connected_to: Address | None = None
        self._failure: QuorumError | None = None
        self._complaints: set[str] = set()
        self._patient_until_ms = clock.elapsed_ms() + START_PATIENCE_MS
        """0 once a controller was found."""
        self._says_that_it_waits = False
        self._last_error = ""
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._published_offset = EMPTY.offset
        self.on_publication: Final[list[Callable[[ImageDelta], Generator[None, None, None] | None]]] = []
        """Called with each publication, in their order, in the step in which the image is swapped. They must neither
        wait nor raise. One that has much to do returns its steps: then the next begins when they are done."""

    # What others ask

    @property
    def leader(self) -> ActiveController | None:
        """The active controller; None while it is unknown."""
        return self._leader

    @property
    def why_unknown(self) -> str:
        """The last error of the controller that was asked last, while none is known to be active; may be empty."""
        return self._last_error

    @property
    def image(self) -> ClusterImage:
        """The image that was published last, perhaps while others still follow it; empty before the first
        publication."""
        return self._image

    @property
    def published_offset(self) -> int:
        """The last offset of the publication that everybody has followed: what heartbeats report. -1 before the
        first."""
        return self._published_offset

    @property
    def high_watermark(self) -> int:
        """Up to where the metadata log is known to be committed; -1 while that is unknown."""
        return self._observer.high_watermark

    @property
    def voters(self) -> Mapping[int, Address]:
        """The controllers that vote, and where: what the log has said last, else what is configured."""
        return self._observer.voters

    async def caught_up(self) -> None:
        """Wait for the first publication. Raises what ended `run`."""
        await self.reached(0)

    async def reached(self, offset: int) -> None:
        """Wait until `offset` is published. Raises what ended `run`."""
        if self._failure is not None:
            raise self._failure
        if self.published_offset < offset:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((offset, waiter))
            await waiter

    # The work

    async def run(self) -> None:
        """Follow the quorum until cancelled. Raises QuorumLost or QuorumUnreadable when that cannot go on: publish
        nothing more, get fenced, exit (cluster.md 1.8)."""
        try:
            effects = self._observer.start()
            while True:
                effects = await self._carry_out(effects)
        except QuorumError as error:
            self._failure = error
            for _, waiter in self._waiting:
                if not waiter.done():
                    waiter.set_exception(error)
                    waiter.exception()  # whoever waits may be gone; nobody has to be told of it then
            raise
        finally:
            for _, waiter in self._waiting:
                waiter.cancel()
            await self._disconnect()

    async def _carry_out(self, effects: Effects) -> Effects:
        """One round: everything that was decided, and what follows from the last of it."""
        for effect in effects[:-1]:
            await self._do(effect)
        if self._image is EMPTY:
            await self._publish()  # the answer that says so need not bring records
        last = effects[-1]
        if isinstance(last, SendRequest):
            return await self._send(last)
        assert isinstance(last, Pause), "a round ends with a request or a pause"
        await self._clock.sleep(last.delay_ms)
        return self._observer.resumed()

    async def _do(self, effect: Effect) -> None:
        match effect:
            case Follow(leader):
                self._follow(leader)
            case Disconnect(reason):
                self._complain(reason)
                await self._disconnect()
            case Restore(snapshot_id, batches):
                _LOG.info("reading a snapshot of the metadata up to offset %d", snapshot_id.end_offset - 1)
                self._replay = Replay(self._image, is_snapshot=True)
                await self._in_slices(self._applied(batches))
                self._replay.advance(snapshot_id.end_offset - 1, snapshot_id.epoch)
                await self._publish()
            case Apply(batches):
                await self._in_slices(self._applied_log(batches))
                await self._publish()
            case _:
                raise AssertionError(f"{effect} stands last")

    # Asking

    async def _send(self, ask: SendRequest) -> Effects:
        try:
            peer = await self._connected(ask)
            response = await peer.request(ask.key, ask.message, timeout_ms=ask.timeout_ms)
        except ClientError as error:
            is_refused = isinstance(error, AuthenticationFailed)
            self._complain(f"{ask.address}: {error}", may_be_starting=not is_refused)
            self._last_error = str(error)
            if is_refused:
                await self._clock.sleep(_REFUSED_RETRY_MS)
            return self._observer.failed()
        return self._observer.handle_response(response, self._clock.elapsed_ms())

    async def _connected(self, ask: SendRequest) -> Peer:
        if self._peer is None or self._connected_to != ask.address:
            await self._disconnect()
            self._peer = await self._dial(ask.address, timeout_ms=ask.timeout_ms)
            self._connected_to = ask.address
        return self._peer

    async def _disconnect(self) -> None:
        peer, self._peer, self._connected_to = self._peer, None, None
        if peer is not None:
            await peer.close()

    def _follow(self, leader: ActiveController | None) -> None:
        self._leader = leader
        if leader is not None:
            self._complaints.clear()
            self._patient_until_ms = 0
            self._last_error = ""
            _LOG.info(
                "controller %d at %s leads in epoch %d", leader.node_id, Address(leader.host, leader.port), leader.epoch
            )

    def _complain(self, reason: str, *, may_be_starting: bool = True) -> None:
        """One line for each new reason, however often it is tried again; one for all while controllers may be starting,
        too."""
        if may_be_starting and self._clock.elapsed_ms() < self._patient_until_ms:
            if not self._says_that_it_waits:
                self._says_that_it_waits = True
                _LOG.info("waits for the controllers, which may be starting, too: %s", reason)
        elif reason not in self._complaints:
            self._complaints.add(reason)
            _LOG.warning("the metadata cannot be fetched for now: %s", reason)

    # Applying and publishing

    def _applied(self, batches: tuple[LogBatch, ...]) -> Generator[None, None, None]:
        """Apply the data batches of a snapshot, in steps."""
        for batch in batches:
            if not batch.is_control:
                yield from self._applied_batch(batch)

    def _applied_log(self, batches: tuple[LogBatch, ...]) -> Generator[None, None, None]:
        """Apply batches of the log, in steps."""
        for batch in batches:
            if not batch.is_control:
                yield from self._applied_batch(batch)
            self._replay.advance(batch.last_offset, batch.epoch)

    def _applied_batch(self, batch: LogBatch) -> Generator[None, None, None]:
        for count, (offset, record) in enumerate(data_records(batch), 1):
            self._replay.apply(offset, record)
            self._has_records = True
            if count % _RECORDS_A_STEP == 0:
                yield

    async def _publish(self) -> None:
        """Publish what has been applied, if it is time (cluster.md 3.6)."""
        is_first = self._image is EMPTY
        if is_first and not (self._has_records and self._observer.is_caught_up and not self._replay.is_in_transaction):
            return
        if self._replay.publishable_offset() <= self._image.offset:
            return
        delta = await self._in_slices(self._replay.publish_in_steps())
        self._check_features(delta.after)
        self._image = delta.after
        for each in self.on_publication:
            steps = each(delta)
            if steps is not None:
                await self._in_slices(steps)
        self._published_offset = delta.after.offset
        if is_first:
            _LOG.info(
                "metadata up to offset %d: %d brokers, %d topics, %d partitions",
                delta.after.offset,
                len(delta.after.brokers),
                len(delta.after.topics),
                delta.after.partition_count,
            )
        self._wake()

    def _check_features(self, image: ClusterImage) -> None:
        """A level that this broker does not know means records that it does not know (cluster.md 1.6 and 1.8)."""
        if self._supported is None:
            return
        sentence = unsupported_levels(image.features, self._supported, controllers=self._controllers)
        if sentence is not None:
            raise QuorumUnreadable(sentence)

    def _wake(self) -> None:
        still = []
        for offset, waiter in self._waiting:
            if offset > self._published_offset:
                still.append((offset, waiter))
            elif not waiter.done():
                waiter.set_result(None)
        self._waiting = still

    async def _in_slices(self, steps: Generator[None, None, T]) -> T:
        """Do all the steps, with turns of the event loop in between."""
        began_ms = self._clock.elapsed_ms()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if self._clock.elapsed_ms() - began_ms >= SLICE_MS:
                await self._clock.sleep(0)
                began_ms = self._clock.elapsed_ms()
