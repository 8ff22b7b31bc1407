"""The threads that brokers of the lab keep for the next one end with each module of these tests."""

from collections.abc import Iterator

import pytest

from eosin.lab.lab_thread import end_idle_threads


@pytest.fixture(scope="module", autouse=True)
def _no_thread_is_kept() -> Iterator[None]:
    yield
    end_idle_threads()
