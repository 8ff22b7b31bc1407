"""`Envelopes`: clients' requests on their way to the active controller (cluster.md 2.2, 5.2).

Always true: of one user one request is on its way, in the order in which they were asked, and users have turns; those
of several go over connections of their own, so that a slow one holds up nobody else. Users are told apart where they
prove who they are; all others, by their addresses. A request that is given up takes its connection with it before its
client is answered, so that it never arrives later (cluster.md 6.11); one whose client has left is given up.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from functools import partial
from typing import Final, NamedTuple

from eosin.cluster.membership.channel import ControllerChannel, ControllerUnavailable
from eosin.protocol.codegen.varints import uvarint
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.envelope import EnvelopeRequest, EnvelopeResponse
from eosin.runtime.clock import Clock
from eosin.runtime.log_budget import LogBudget
from eosin.runtime.round_robin import RoundRobin

_LOG: Final = logging.getLogger(__name__)

LANES: Final = 4
"""Requests on their way at a time, each of another user, over a connection of its own. One that is not needed is not
opened."""
CHECK_S: Final = 1.0
"""So often somebody looks whether the client of a request that is on its way is still there."""
FORWARD_TIMEOUT_MS: Final = 60_000
"""Time that a request of a client waits for its turn and for a controller (cluster.md 5.2)."""
_CORRELATION_ID_AT: Final = 4
"""Position of the correlation id in a request without its size: behind the API's key and version."""


class ForwardedResponse(NamedTuple):
    """The result of a client's request that was passed on."""

    error_code: ErrorCode
    """NONE: `frame` is the response. UNSUPPORTED_VERSION: the client's connection has to close. Anything else is the
    error that the client gets."""
    frame: bytes
    """The response's header and body, without a size: what the client reads. Empty after an error."""


class Envelopes:
    """Passes clients' requests on."""

    def __init__(self, new_channel: Callable[[], ControllerChannel], clock: Clock) -> None:
        """`new_channel` makes what a lane goes over; it dials nothing before a request."""
        self._turns = RoundRobin(LANES)
        self._lanes = [new_channel() for _ in range(LANES)]
        self._idle = self._lanes.copy()
        """The one used last is last, and used next: a broker with one admin keeps one connection."""
        self._budget = LogBudget(clock, _log_left_out, lines=1)

    async def forward(
        self,
        request: bytes,
        *,
        principal: bytes,
        client_host: bytes,
        is_gone: Callable[[], bool] = lambda: False,
        timeout_ms: int = FORWARD_TIMEOUT_MS,
    ) -> ForwardedResponse:
        """Pass a client's request on in an Envelope (cluster.md 5.2).

        `request` is the frame as it came, without its size; `principal` from `principal_data`; `client_host` the 4 or
        16 bytes of the client's address, and `is_gone` whether it has left. The response's correlation id is the
        client's.
        """
        envelope = EnvelopeRequest(request_data=request, request_principal=principal, client_host_address=client_host)
        owner = (principal, client_host if principal == _ANONYMOUS else None)
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(end) as limit, self._turns.turn(owner):
                limit.reschedule(None)  # the channel minds what is left, and says why there was no answer
                response = await self._send(envelope, is_gone, timeout_ms=int((end - loop.time()) * 1000))
        except ControllerUnavailable as error:
            response = None
            self._complain(owner, f"a client's request could not be passed on: {error}")
        except TimeoutError:
            response = None
            self._complain(owner, f"a client's request could not be passed on: earlier ones took {timeout_ms} ms")
        if response is None:
            return ForwardedResponse(ErrorCode.REQUEST_TIMED_OUT, b"")
        return opened_envelope(request, response, partial(self._complain, owner))

    async def close(self) -> None:
        """Close the connections; requests on their way fail."""
        for lane in self._lanes:
            await lane.close()

    def _complain(self, owner: Hashable, sentence: str) -> None:
        if self._budget.allows(owner, sentence):
            _LOG.warning("%s", sentence)

    async def _send(
        self, envelope: EnvelopeRequest, is_gone: Callable[[], bool], *, timeout_ms: int
    ) -> EnvelopeResponse | None:
        """The response; None when the client has left without it."""
        if is_gone():
            return None
        lane = self._idle.pop()
        asked = asyncio.ensure_future(lane.request(ApiKey.ENVELOPE, envelope, timeout_ms=timeout_ms))
        try:
            while not asked.done():
                await asyncio.wait((asked,), timeout=CHECK_S)
                if not asked.done() and is_gone():
                    return None
            response: EnvelopeResponse = asked.result()
            return response
        finally:
            try:
                if not asked.done():
                    asked.cancel()
                    await asyncio.gather(asked, return_exceptions=True)  # until its connection is closed
            finally:
                self._idle.append(lane)


def _log_left_out(sentence: str, count: int) -> None:
    _LOG.warning("%s; %d more like that", sentence, count)


def opened_envelope(
    request: bytes, response: EnvelopeResponse, complain: Callable[[str], None] = _LOG.warning
) -> ForwardedResponse:
    """The result for the client of `request`, from the controller's response to its Envelope: the table of
    cluster.md 5.2, without 41, which the channel sees to. What is wrong with it goes to `complain`."""
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        return ForwardedResponse(ErrorCode.UNSUPPORTED_VERSION, b"")
    frame = response.response_data
    if response.error_code != ErrorCode.NONE or frame is None:
        complain(f"the controller refused a client's request that was passed on, with error {response.error_code}")
        return ForwardedResponse(ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    if frame[:4] != request[_CORRELATION_ID_AT : _CORRELATION_ID_AT + 4]:
        complain("the controller answered another request than the one that was passed on")
        return ForwardedResponse(ErrorCode.UNKNOWN_SERVER_ERROR, b"")
    return ForwardedResponse(ErrorCode.NONE, frame)


def principal_data(name: str = "ANONYMOUS", *, kind: str = "User", token_authenticated: bool = False) -> bytes:
    """A principal as an Envelope carries it: version 0 of DefaultPrincipalData behind its number (KIP-590)."""
    return b"".join((b"\0\0", _compact(kind), _compact(name), bytes((token_authenticated, 0))))


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


_ANONYMOUS: Final = principal_data()
