"""`StoreWatch`: notices that the stores of a listener, or of a link to other nodes, have changed, and builds its next
context (security.md 2.5).

Always true: a context that connections use is never touched. The next one is built whole, checked and proved like the
first, and only then handed out; if anything is wrong with it, the listener goes on with the one it has. Connections
that are open keep theirs.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final, Generic, Protocol, TypeVar

from eosin.runtime.clock import Clock
from eosin.runtime.key_files import StoreError
from eosin.runtime.logging_format import fields
from eosin.security.tls.contexts import names_of
from eosin.security.tls.stores import KeyStore, utc

log = logging.getLogger(__name__)

PATIENCE_MS: Final = 30_000
"""So long may two files contradict each other before that is an error: somebody is writing them one after the other."""

WARN_INTERVAL_MS: Final = 86_400_000
"""Between two warnings that a certificate will expire."""

Stamps = tuple[tuple[str, int, int, int] | None, ...]


class WatchedSettings(Protocol):
    """The settings from which a context is made, as far as it matters here. `TlsSettings` and `LinkTls` fit."""

    @property
    def listener(self) -> str:
        """The owner of these stores, for the log."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read again when they change."""

    @property
    def allow_dn_changes(self) -> bool:
        """True if a new certificate may have another subject."""

    @property
    def allow_san_changes(self) -> bool:
        """True if a new certificate may lack a name of the old one."""


class Built(Protocol):
    """A context and its key store: `BuiltContext` and `LinkContext` are such."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for new connections."""

    @property
    def key_store(self) -> KeyStore | None:
        """With what this broker identifies itself."""

    def warnings(self, now: datetime) -> Iterator[str]:
        """Warnings for its operator."""


Settings = TypeVar("Settings", bound=WatchedSettings)
Result = TypeVar("Result", bound=Built)


def stamps_of(settings: WatchedSettings) -> Stamps:
    """By what a change of each file shows: where symbolic links lead, inode, size and time. None: it is not there."""
    return tuple(_stamp(path) for path in settings.files)


def _stamp(path: str) -> tuple[str, int, int, int] | None:
    try:
        found = os.stat(path)
        return os.path.realpath(path), found.st_ino, found.st_size, found.st_mtime_ns
    except OSError:
        return None


class StoreWatch(Generic[Settings, Result]):
    """The stores of one listener, or of one link."""

    def __init__(self, settings: Settings, clock: Clock, *, build: Callable[[Settings, datetime], Result]) -> None:
        """Reads and checks them. Raises StoreError, as `build` does."""
        self.settings: Final = settings
        self._clock: Final = clock
        self._build: Final = build
        self._stamps = stamps_of(settings)
        self.built = build(settings, utc(clock.now_ms()))
        """The stores and the context for new connections."""
        self._failing_since_ms: int | None = None
        self._told: tuple[Stamps, str] | None = None
        """The last error that was logged."""
        self.refused: str | None = None
        """The reason why the present stores cannot be used; None if they can."""
        self._warned_ms = clock.elapsed_ms()
        self._warn()

    async def refresh(self, *, forced: bool = False) -> bool:
        """Load the stores again if files have changed or if `forced`; return True if there is another context now."""
        stamps = await asyncio.to_thread(stamps_of, self.settings)
        if self._clock.elapsed_ms() - self._warned_ms >= WARN_INTERVAL_MS:
            self._warned_ms = self._clock.elapsed_ms()
            self._warn()
        if stamps == self._stamps and not forced:
            self._failing_since_ms = None
            return False
        try:
            built = await asyncio.to_thread(self._build, self.settings, utc(self._clock.now_ms()))
            check_same(self.settings, self.built, built)
        except StoreError as refused:
            self.refused = str(refused)
            self._refuse(self.refused, stamps, forced=forced)
            return False
        self._stamps, self.built = stamps, built
        self._failing_since_ms = self._told = self.refused = None
        if built.key_store is None:
            log.info("new connections trust what was loaded again", extra=fields(listener=self.settings.listener))
        else:
            leaf = built.key_store.leaf
            log.info(
                "new connections get the certificate that was loaded again",
                extra=fields(
                    listener=self.settings.listener,
                    serial=f"{leaf.serial_number:x}",
                    expires=f"{leaf.not_valid_after_utc:%Y-%m-%d}",
                ),
            )
        self._warn()
        return True

    def _refuse(self, why: str, stamps: Stamps, *, forced: bool) -> None:
        now_ms = self._clock.elapsed_ms()
        if self._failing_since_ms is None:
            self._failing_since_ms = now_ms
        is_young = now_ms - self._failing_since_ms < PATIENCE_MS
        if forced or (not is_young and self._told != (stamps, why)):
            self._told = stamps, why
            log.error(
                "the changed certificate cannot be used, and the old one stays: %s",
                why,
                extra=fields(listener=self.settings.listener),
            )

    def _warn(self) -> None:
        for warning in self.built.warnings(utc(self._clock.now_ms())):
            log.warning(warning, extra=fields(listener=self.settings.listener))


def check_same(settings: WatchedSettings, old: Built, new: Built) -> None:
    """Refuse a certificate for somebody else, unless the settings allow it (KIP-978). Raises StoreError."""
    if old.key_store is None or new.key_store is None:
        return
    before, after = old.key_store.leaf, new.key_store.leaf
    name = new.key_store.name
    if before.subject != after.subject and not settings.allow_dn_changes:
        raise StoreError(f"{name}: the certificate has another subject, which ssl.allow.dn.changes would allow")
    lost = names_of(before) - names_of(after)
    if lost and not settings.allow_san_changes:
        raise StoreError(
            f"{name}: the certificate has lost {', '.join(sorted(lost))}, which ssl.allow.san.changes would allow"
        )
