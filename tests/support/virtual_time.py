"""The mark `virtual`: an asynchronous test that has it, and its asynchronous fixtures, run on the event loop of the
simulator. When nobody has anything to do, time jumps to what is due next. tests/conftest.py imports the hook of
pytest-asyncio that gives such a test its loop.

Always true: nothing on the loop opens a socket, starts a process or hands work to a thread; a `SystemClock` tells the
time of the loop; a test that waits for what
never happens fails at once, with the line at which it waits; an exception that nobody has caught, in a callback or a
task, fails it, too.
"""

import asyncio
import functools
import io
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NoReturn, TypeVar

import pytest
from proof.kinds import REAL
from simulation.clock import SimulatedClock
from simulation.loop import Process, Scheduler
from virtual_network import End, Listening, Network

from eosin.runtime import clock as runtime_clock

_T = TypeVar("_T")
HANGS_AFTER_S: Final = 3600.0
"""Virtual seconds after which a test is taken to wait for ever: the periodic work of a broker never ends by itself."""


class Hangs(AssertionError):
    """The test waits for what does not happen."""


class Uncaught(AssertionError):
    """Something beside the test has raised an exception, and nobody has caught it."""


class Real(AssertionError):
    """Something on a virtual loop needs a socket, a thread or a process."""


class VirtualLoop(Process):
    """The event loop of a virtual test: a process of a world of its own, in which it may make others."""

    def __init__(self) -> None:
        _watch()
        self.scheduler = Scheduler(report=self._note)
        super().__init__(self.scheduler, "test")
        self.clock = SimulatedClock(self.scheduler)
        self.network = Network()
        self._time_before = runtime_clock.time
        runtime_clock.time = _Time(self.clock)  # type: ignore[assignment]
        self._processes: list[Process] = [self]
        self._uncaught: list[dict[str, Any]] = []

    def new_process(self, name: str) -> Process:
        """One more process of this world."""
        return self.adopt(Process(self.scheduler, name))  # type: ignore[abstract]  # it is all that asyncio needs

    def adopt(self, process: Process) -> Process:
        """A process of this world that somebody else has made: its end is with that of the world."""
        self._processes.append(process)
        return process

    def _note(self, process: Process, context: dict[str, Any]) -> None:
        # asyncio's own streams (3.11) raise this in a callback when the task that serves a connection is cancelled.
        if not isinstance(context.get("exception"), asyncio.CancelledError):
            self._uncaught.append(context)

    # What asyncio.Runner and client code ask of a loop, beyond what simulated processes do

    def run_until_complete(self, future: Any) -> Any:
        """Let the world go on until `future` is done. Raises what it raises, `Hangs` and `Uncaught`."""
        waited: asyncio.Future[Any] = asyncio.ensure_future(future, loop=self)
        over: asyncio.Future[None] = self.create_future()

        def end(*_: object) -> None:
            if not over.done():
                over.set_result(None)

        waited.add_done_callback(end)
        limit = self.call_later(HANGS_AFTER_S, end)
        self.scheduler.run(over)
        limit.cancel()
        if not waited.done():
            raise Hangs(f"nothing that happens within {HANGS_AFTER_S:.0f} virtual seconds ends this:\n{_stack(waited)}")
        result = waited.result()
        self._raise_uncaught()
        return result

    def _raise_uncaught(self) -> None:
        uncaught, self._uncaught = self._uncaught, []
        if uncaught:
            said = "; ".join(f"{each.get('message')}: {each.get('exception')!r}" for each in uncaught)
            raise Uncaught(said) from uncaught[0].get("exception")

    def close(self) -> None:
        """End all processes of the world."""
        for process in self._processes:
            process.kill()
        self.network.close()
        runtime_clock.time = self._time_before
        self._raise_uncaught()

    async def shutdown_asyncgens(self) -> None:
        """No generator is known to this loop."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    def set_debug(self, enabled: bool) -> None:
        assert not enabled, "a virtual loop has no debug mode"

    def run_in_executor(self, executor: object, func: Callable[..., object], *args: Any) -> NoReturn:  # type: ignore[override]
        raise Real("a thread in a virtual test")

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **how: Any
    ) -> tuple[End, asyncio.BaseProtocol]:
        assert not any(how.values()), f"not on a virtual network: {how}"
        await asyncio.sleep(0)
        protocol = protocol_factory()
        end = self.network.connect(self, protocol, host, port)
        await asyncio.sleep(0)  # the protocol hears of it before the caller does
        return end, protocol

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **how: Any
    ) -> Listening:
        assert not any(how.values()), f"not on a virtual network: {how}"
        address = host, port or self.network.free_port()
        self.network.listen(*address, lambda: (self, protocol_factory()))
        return Listening(self.network, address)  # type: ignore[abstract]  # it is all that tests need


class _Time:
    """A stand-in for the module `time` under `SystemClock`, for code that was given no other clock."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock

    def time_ns(self) -> int:
        return self._clock.now_ms() * 1_000_000

    def monotonic_ns(self) -> int:
        return self._clock.elapsed_ms() * 1_000_000

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@functools.cache
def _watch() -> None:
    """Look at what Python does from now on; such a look cannot be ended."""

    def look(event: str, _: object) -> None:
        if event in REAL and isinstance(asyncio._get_running_loop(), Process):
            raise Real(f"{REAL[event]} in a virtual test")

    sys.addaudithook(look)


def _stack(waited: "asyncio.Future[Any]") -> str:
    found = io.StringIO()
    if isinstance(waited, asyncio.Task):
        waited.print_stack(file=found)
    return found.getvalue()


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run` as a virtual test is run, for a test that is not asynchronous itself."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now_ms() -> int:
    """Milliseconds since 1970, where the caller runs: on the clock of its virtual loop, or on that of the machine."""
    loop = asyncio._get_running_loop()
    return loop.clock.now_ms() if isinstance(loop, VirtualLoop) else time.time_ns() // 1_000_000


def is_virtual(item: pytest.Item) -> bool:
    """True if a test has the mark."""
    return item.get_closest_marker("virtual") is not None


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of each asynchronous test."""
    return {"virtual": VirtualLoop} if is_virtual(item) else {"real": asyncio.new_event_loop}
