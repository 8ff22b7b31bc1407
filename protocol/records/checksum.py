"""`crc32c`: the checksum of batches, snapshots and the journal.

When the package of that name is imported, it reads its own version from the metadata of distributions. For this the
interpreter loads parsers of mail, archives and dates, 80 modules that a broker has no other use for: about a twentieth
of its CPU at a start, and 1.7 MiB. So the extension is loaded without the package around it.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, Final


def _extension() -> Any:
    """The package's extension; the package itself if a release of it has that elsewhere."""
    package = PathFinder.find_spec("crc32c")
    if package is not None:
        found = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
        if found is not None and found.loader is not None:
            extension = module_from_spec(found)
            found.loader.exec_module(extension)
            if hasattr(extension, "crc32c"):
                return extension
    import crc32c as whole

    return whole


crc32c: Final[Callable[..., int]] = _extension().crc32c
"""The CRC-32C of some bytes, or of what follows bytes whose checksum is the second argument."""
