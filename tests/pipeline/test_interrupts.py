"""Ctrl-C in subcommands of `eosin pipeline`: the end is in order, whatever is under way."""

import logging
import os
import signal
from collections.abc import Iterator

import pytest

from eosin.cli.__main__ import main
from eosin.pipeline.cli import progress
from eosin.pipeline.cli.interrupts import held_back, raise_on_interrupt


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """The handler of the test process, back at the end."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    logging.disable(logging.NOTSET)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def start(started: list[bool], *, interrupts: int) -> None:
    """As a command starts Spark, interrupted meanwhile."""
    with held_back():
        for _ in range(interrupts):
            interrupt()
        started.append(True)


def test_an_interrupted_command_stops_its_children_and_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped = []

    def work(_: object) -> int:
        try:
            interrupt()
        finally:
            stopped.append(True)
        return 0

    monkeypatch.setattr(progress, "main", work)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as the program has it before it knows the command
    assert main(["pipeline", "progress"]) == 130
    assert stopped
    assert capsys.readouterr() == ("", "")


def test_an_interrupt_is_an_exception_despite_the_handler_of_spark() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise_on_interrupt()
    with pytest.raises(KeyboardInterrupt):
        interrupt()


def test_log_lines_of_libraries_about_an_interrupt_are_hidden(caplog: pytest.LogCaptureFixture) -> None:
    raise_on_interrupt()
    try:
        interrupt()
    except KeyboardInterrupt:
        logging.exception("as py4j does")
    assert not caplog.records


def test_an_interrupt_waits_until_spark_has_started_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    started: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        start(started, interrupts=1)
    assert started
    assert capsys.readouterr().err == "ending as soon as Spark has started; a second Ctrl-C ends at once\n"


def test_an_interrupt_waits_also_when_spark_has_set_its_handler_but_not_started() -> None:
    started: list[bool] = []

    def start_spark() -> None:
        with held_back():
            signal.signal(signal.SIGINT, lambda *_: pytest.fail("it would ask a JVM that is not ready"))
            interrupt()
            started.append(True)

    with pytest.raises(KeyboardInterrupt):
        start_spark()
    assert started
    assert signal.signal.__name__ == "signal", "others may set handlers again"


def test_the_process_of_the_jvm_may_ignore_interrupts() -> None:
    with held_back():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_second_interrupt_does_not_wait() -> None:
    started: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        start(started, interrupts=2)
    assert not started


def test_after_the_start_an_interrupt_does_not_wait_any_more() -> None:
    start([], interrupts=0)
    with pytest.raises(KeyboardInterrupt):
        interrupt()
