"""A small disk that can be filled: a tmpfs, which only root may mount."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


class NotMounted(Exception):
    """This user may not mount a tmpfs; the text says what the system said."""


@contextlib.contextmanager
def small_disk(place: Path, *, mebibytes: int) -> Iterator[Path]:
    """A file system of so many MiB at `place`, which is made. Raises NotMounted."""
    place.mkdir(parents=True, exist_ok=True)
    options = ["-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0755", "eosin-test", str(place)]
    mounted = subprocess.run(["mount", *options], check=False, capture_output=True, text=True)
    if mounted.returncode:
        raise NotMounted(f"this user may not mount a small tmpfs: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(ballast: Path) -> None:
    """Take all the space that is left, in one file."""
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(descriptor, bytes(4096)):
            pass
    os.close(descriptor)
