"""What is said of a data directory that cannot be used."""

import errno
import os
import sys
from pathlib import Path

import pytest

from eosin.node.unusable_directory import cannot_use


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no uids")
def test_a_file_of_another_user_is_named_with_its_owner_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "meta.properties"
    file.touch()
    me, refused = os.geteuid(), PermissionError(errno.EACCES, "Permission denied", str(file))
    assert str(cannot_use(str(tmp_path), refused)) == (
        f"cannot use the data directory {tmp_path}: this process is uid {me} and may not use {file}, which belongs to"
        f" uid {me}; chown -R {me} the directory, or run as its owner"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no uids")
def test_a_file_that_cannot_be_seen_is_named_without_an_owner(tmp_path: Path) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "closed"))
    assert f"may not use {tmp_path / 'closed'}; chown -R" in str(cannot_use(str(tmp_path), refused))
