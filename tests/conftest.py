"""What holds for every test."""

import gc
import logging
from collections.abc import Generator, Iterator
from pathlib import Path

# pytest's hypothesis plugin imports it when the run is over. By then client libraries have left garbage behind, and
# collecting that in the middle of an import fails in CPython 3.11.7 (its issue 106905). So it is imported first.
import hypothesis as hypothesis
import pytest
import tls_files as tls
import toolchains
from asked_broker import NO_RESTART, Restartable, can_restart, is_another, restartable_broker
from proof.stages import REAL
from virtual_time import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories

_TESTS = Path(__file__).parent

pytest_plugins = ("nothing_left", "proof.results", "proof.left_out", "proof.properties", "drifted_seeds")


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Restartable]:
    """A broker that the test may restart."""
    with restartable_broker(tmp_path / "restartable") as broker:
        yield broker


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tls.TlsFiles:
    """Certificates of a broker on this machine, and of whom not to trust."""
    with toolchains.skipped_without():
        return tls.make(tmp_path_factory.mktemp("tls"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported now stays to the end, so the garbage collector goes through it once, and not in many a test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_runtest_logfinish() -> None:
    """A command that a test ran in this process has sent its log to a stream that is closed now (`setup_logging`)."""
    root = logging.getLogger()
    for handler in [each for each in root.handlers if type(each) is logging.StreamHandler]:
        root.removeHandler(handler)
        root.setLevel(logging.WARNING)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What ours does otherwise on purpose (`wire.better_than_kafka`) is asked of another broker, but may fail there. It
    is not restarted unless somebody said how."""
    for item in items:
        folder, *_ = item.path.relative_to(_TESTS).parts
        if folder in (*REAL, "clients") and not item.get_closest_marker("virtual"):
            item.add_marker(pytest.mark.process)
        if "restartable" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.restarts)
    if not is_another():
        return
    for item in items:
        if item.get_closest_marker("restarts") and not can_restart():
            item.add_marker(pytest.mark.skip(reason=NO_RESTART))
        if differs := item.get_closest_marker("differs"):
            item.add_marker(pytest.mark.xfail(reason=differs.args[0], run=differs.kwargs["asked"]))
