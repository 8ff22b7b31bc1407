"""Disks that become read-only under a running process, which only root may make."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from small_disk import NotMounted


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotMounted(f"this user may not do `{' '.join(command)}`: {done.stderr.strip()}")


class Mount:
    """Something that is mounted over a directory, until the test is over."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.is_mounted = False

    def cover(self) -> None:
        """Lay the directory over itself, read-only: files that are open can be written, by name nothing can. Raises
        NotMounted."""
        _run("mount", "--bind", str(self.place), str(self.place))
        self.is_mounted = True
        _run("mount", "-o", "remount,ro,bind", str(self.place))

    def put(self, image: Path, *, mebibytes: int) -> None:
        """Mount a new ext4 there, which is kept in `image`. Raises NotMounted."""
        self.place.mkdir(exist_ok=True)
        with image.open("wb") as file:
            file.truncate(mebibytes << 20)
        with contextlib.suppress(FileNotFoundError):
            _run("mkfs.ext4", "-q", "-F", str(image))
            self._put(image)
            return
        raise NotMounted("mkfs.ext4 is not installed")

    def put_copy(self, image: Path) -> None:
        """Mount what `image` has, from a copy. Raises NotMounted.

        The kernel keeps a file system for as long as any mount namespace has it, also one of a process that knows
        nothing of it, and gives it to whoever mounts the same image again: with the error that it had.
        """
        copy = image.with_name(f"{image.name}-copy")
        _run("cp", "--sparse=always", str(image), str(copy))
        self._put(copy)

    def _put(self, image: Path) -> None:
        _run("mount", "-o", "loop,errors=remount-ro", str(image), str(self.place))
        self.is_mounted = True

    def fail(self) -> None:
        """Let the file system do what it does after an error of its device: nothing can be written any more, not even
        to open files. Raises NotMounted."""
        _run("mount", "-o", "remount,abort", str(self.place))

    def remove(self) -> None:
        """As it was before."""
        if self.is_mounted:
            subprocess.run(["umount", str(self.place)], check=True)
            self.is_mounted = False


@contextlib.contextmanager
def kept_by_another() -> Iterator[None]:
    """Another process has its own copy of every mount there is now, as containers and services have. Raises
    NotMounted."""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo; exec sleep infinity"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                assert process.stderr is not None
                raise NotMounted(f"this user may not do `{' '.join(command)}`: {process.stderr.read().strip()}")
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def mount(place: Path) -> Iterator[Mount]:
    """A mount that is gone in the end."""
    made = Mount(place)
    try:
        yield made
    finally:
        made.remove()
