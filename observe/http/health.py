"""Is the broker alive, and is it ready? (console.md 4.4)"""

from collections.abc import Callable, Iterator
from typing import Any

from eosin.broker.services import Services
from eosin.protocol.names import INTERNAL_TOPICS, TopicPartition


class Health:
    """The facts behind `/readyz`."""

    def __init__(self, services: Services, *, is_loading: Callable[[], bool], is_stopping: Callable[[], bool]) -> None:
        self._services = services
        self._is_loading = is_loading
        self._is_stopping = is_stopping

    def reasons(self) -> dict[str, Any]:
        """The reasons why the broker is not ready; empty if it is."""
        found: dict[str, Any] = {}
        if self._is_stopping():
            found["stopping"] = True
        if self._is_loading():
            found["loading"] = True
        if offline := list(self._offline()):
            found["offline"] = offline
        return found

    def _offline(self) -> Iterator[str]:
        """Internal partitions whose log has failed. Others are not looked at: there may be 100,000 of them."""
        topics, partitions = self._services.cluster.topics, self._services.partitions
        for name in INTERNAL_TOPICS:
            topic = topics.get(name)
            for index in range(topic.partitions if topic is not None else 0):
                partition = TopicPartition(name, index)
                log = partitions.hosted_log(partition)
                if log is not None and log.failure is not None:
                    yield str(partition)
