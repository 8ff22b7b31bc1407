"""`eosin testing`: a throwaway broker for tests in any language, until SIGTERM, Ctrl-C or the end of standard input.

Always true: it keeps nothing; exit code 0 after a stop, 2 with one sentence when it cannot start as asked.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from eosin.cli.common.arguments import Parser, fail
from eosin.lab import control
from eosin.lab.behaviours import BEHAVIOURS, DEFAULT_BEHAVIOUR
from eosin.lab.broker import ThreadedBroker
from eosin.lab.common.errors import LabError, PortTakenError
from eosin.lab.history.recording import LEVELS, OFF
from eosin.lab.options import FLOWING, LAB, READY_MADE, BrokerOptions, checked_snapshot, options_of, topics_in
from eosin.runtime.logging_format import setup_logging
from eosin.runtime.version import VERSION
from eosin.settings.broker import DURABILITIES

COMMAND: Final = "testing"
LISTEN: Final = "--listen"
OK: Final = 0
_STDIN: Final = 0
_STDOUT: Final = 1
_DIES_WITH_PARENT: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    chosen = parser().parse_args(arguments)
    try:
        options = options_in(chosen)
    except LabError as refused:
        return fail(COMMAND, str(refused))
    setup_logging(level="warning", form="text")
    if chosen.control:
        _die_with_parent()
    return _serve(options, chosen)


def parser() -> Parser:
    """The options of the command."""
    options = Parser(
        prog="eosin testing",
        description="Run a throwaway broker for tests: in memory, on a free port, with timings that make tests fast.",
        examples=[
            "eosin testing",
            "eosin testing --topics orders:3,payments --ready-line --until-stdin-ends",
            "eosin testing --set transaction.max.timeout.ms=5000 --ready-fd 3",
        ],
    )
    add_broker_options(options)
    options.add_argument("--record", choices=LEVELS, default=OFF, help=argparse.SUPPRESS)  # ProcessBroker's own
    ready = options.add_mutually_exclusive_group()
    ready.add_argument(
        "--ready-fd", type=int, metavar="N", help="write HOST:PORT to this descriptor when ready, and close it"
    )
    ready.add_argument("--ready-file", metavar="FILE", help="write HOST:PORT to this file when ready")
    ready.add_argument("--ready-line", action="store_true", help="print HOST:PORT when ready, and nothing else")
    options.add_argument(
        "--until-stdin-ends", action="store_true", help="end with the program at the other end of standard input"
    )
    # ProcessBroker's own
    ready.add_argument("--control", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--clock", default=FLOWING, help=argparse.SUPPRESS)
    options.add_argument("--clock-at", type=int, help=argparse.SUPPRESS)
    return options


def add_broker_options(options: Parser) -> None:
    """Add the options that say how the broker is to be."""
    options.add_argument(LISTEN, metavar="[HOST:]PORT", default="127.0.0.1:0", help="listen here (a free port)")
    options.add_argument("--topics", metavar="NAME[:PARTITIONS],...", default="", help="create these topics")
    options.add_argument(
        "--set", action="append", metavar="NAME=VALUE", default=[], help="set one setting of a broker; may be repeated"
    )
    options.add_argument(
        "--durability",
        choices=DURABILITIES,
        help="what an acknowledged write has survived (fsync)",
    )
    options.add_argument(
        "--disk",
        metavar="lab|memory|DIR",
        default=LAB,
        help="lying when told to (lab), or where files go",
    )
    options.add_argument(
        "--behaviour",
        choices=tuple(BEHAVIOURS),
        default=DEFAULT_BEHAVIOUR,
        help=f"behave like this broker ({DEFAULT_BEHAVIOUR})",
    )
    options.add_argument(
        "--nodes", type=int, metavar="N", default=1, help="show clients so many nodes, at ports one after the other (1)"
    )
    options.add_argument("--seed", type=int, metavar="N", help="the seed of torn writes")
    options.add_argument("--snapshot", choices=READY_MADE, help="start in a state that is hard to get into")


def options_in(chosen: argparse.Namespace) -> BrokerOptions:
    """The options of the broker that were chosen. Raises LabError."""
    host, colon, port = chosen.listen.rpartition(":")
    if not port.isdecimal():
        raise LabError(f"--listen is [HOST:]PORT, not {chosen.listen!r}")
    settings = {}
    for each in chosen.set:
        name, equals, value = each.partition("=")
        if not equals:
            raise LabError(f"--set is NAME=VALUE, not {each!r}")
        settings[name] = value
    return options_of(
        topics=topics_in(chosen.topics, "--topics"),
        settings=settings,
        durability=chosen.durability,
        host=host if colon else "127.0.0.1",
        port=int(port),
        disk=chosen.disk,
        seed=chosen.seed,
        clock=chosen.clock,
        clock_at=chosen.clock_at,
        record=chosen.record,
        behaviour=chosen.behaviour,
        nodes=chosen.nodes,
    )


def _serve(options: BrokerOptions, chosen: argparse.Namespace) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if chosen.control:  # Ctrl-C is for the tests, which close their brokers
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        broker = ThreadedBroker(options, checked_snapshot(chosen.snapshot)).start()
    except LabError as refused:
        if chosen.control:
            os.write(_STDOUT, control.framed(control.Returned(refusal=str(refused))))
            return OK
        return fail(COMMAND, refused.with_option(LISTEN) if isinstance(refused, PortTakenError) else str(refused))
    try:
        _report_ready(broker.broker.bootstrap, chosen, options)
    except OSError as error:
        broker.close()
        return fail(COMMAND, f"cannot say that it is ready: {error.strerror}")
    if chosen.control or chosen.until_stdin_ends:
        listen = _serve_control if chosen.control else _read_to_end
        threading.Thread(target=listen, args=(broker, stop), name="eosin-testing-stdin", daemon=True).start()
    stop.wait()
    broker.close()
    return OK


def _report_ready(bootstrap: str, chosen: argparse.Namespace, options: BrokerOptions) -> None:
    """Tell whoever waits. Raises OSError."""
    if chosen.control:
        os.write(_STDOUT, control.framed(control.Returned(bootstrap)))
    elif chosen.ready_fd is not None:
        os.write(chosen.ready_fd, f"{bootstrap}\n".encode())
        os.close(chosen.ready_fd)
    elif chosen.ready_file is not None:
        # Whoever finds the file finds all of it.
        path = Path(chosen.ready_file)
        written = path.with_name(f"{path.name}.{os.getpid()}")
        written.write_text(f"{bootstrap}\n")
        written.replace(path)
    elif chosen.ready_line:
        print(bootstrap, flush=True)
    else:
        print(f"eosin {VERSION} TESTING ready on {bootstrap}, durability {options.durability}", flush=True)


def _read_to_end(broker: ThreadedBroker, stop: threading.Event) -> None:
    """Stop when standard input ends."""
    while os.read(_STDIN, 4096):
        pass
    stop.set()


def _serve_control(broker: ThreadedBroker, stop: threading.Event) -> None:
    """Carry out one call after the other, and stop when standard input ends."""
    while (frame := control.read_frame(lambda size: os.read(_STDIN, size))) is not None:
        returned = control.perform(
            control.call_in(frame), broker.broker.operations, lambda work: broker.thread.submit(work).result()
        )
        response = memoryview(control.framed(returned))
        while response:
            response = response[os.write(_STDOUT, response) :]
    stop.set()


def _die_with_parent() -> None:
    """Even while this process is paused, when no end of standard input reaches it."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(OK)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
