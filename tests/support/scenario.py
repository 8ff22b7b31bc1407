"""One client library's view of the broker under test."""

import uuid
from collections.abc import Callable
from typing import Any

from real_clients.base import Admin, Client, Consumer, Producer


class Scenario:
    """One client's view of the broker: makes producers and consumers, and closes them all at the end."""

    def __init__(self, client: Client, bootstrap: str) -> None:
        self.client = client
        self.bootstrap = bootstrap
        self._close: list[Callable[[], None]] = []
        self._admin: Admin | None = None

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = self.client.admin(self.bootstrap)
            self._close.append(self._admin.close)
        return self._admin

    def name(self, kind: str) -> str:
        """A name that no other test uses."""
        return f"{kind}-{uuid.uuid4().hex[:12]}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """A new topic. Settings are given with underscores for dots."""
        name = self.name("topic")
        self.admin.create_topic(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    def producer(self, **settings: Any) -> Producer:
        """A producer as its application first makes it: nothing has been sent."""
        made = self.client.producer(self.bootstrap, **settings)
        self._close.append(made.close)
        return made

    def transactional(self, transactional_id: str | None = None, **settings: Any) -> Producer:
        """A transactional producer, initialised."""
        made = self.producer(transactional_id=transactional_id or self.name("tx"), **settings)
        made.init()
        return made

    def consumer(self, **settings: Any) -> Consumer:
        made = self.client.consumer(self.bootstrap, **settings)
        self._close.append(made.close)
        return made

    def reader(self, topic: str, partitions: int = 1, **settings: Any) -> Consumer:
        """A consumer without a group, read_committed unless told otherwise, at the start of each partition."""
        made = self.consumer(**settings)
        made.assign({(topic, partition): 0 for partition in range(partitions)})
        return made

    def closes(self, close: Callable[[], None]) -> None:
        """Have something else closed at the end, too."""
        self._close.append(close)

    def close(self) -> None:
        for close in reversed(self._close):
            close()
