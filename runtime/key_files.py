"""Files of keys and certificates, as brokers and clients take them: read whole, and handed to OpenSSL as a path.

Always true: a key goes from memory to OpenSSL, never through a file that another user may read, and never through the
data directory (security.md 2.2).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

JKS: Final = b"\xfe\xed\xfe\xed"
"""The first bytes of a Java key store of the old kind."""
MAX_STORE_BYTES: Final = 1 << 20


class StoreError(Exception):
    """Says why a store cannot be used, in one sentence with its name and never its content."""


def read_store(path: str) -> bytes:
    """The content of a file of moderate size. Raises StoreError."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_STORE_BYTES + 1)
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > MAX_STORE_BYTES:
        raise StoreError(f"{path} is larger than any store: {MAX_STORE_BYTES} bytes are read at most")
    return content


@contextmanager
def as_file(content: bytes) -> Iterator[str]:
    """Content as a path, which is all that OpenSSL reads keys and revocation lists from: memory on Linux, elsewhere a
    file that only this user may read and that is gone at once."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("eosin-tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with TemporaryDirectory(prefix="eosin-tls-") as directory:  # only its owner may look inside
            path = Path(directory, "store.pem")
            path.touch(mode=0o600)
            path.write_bytes(content)
            yield str(path)
