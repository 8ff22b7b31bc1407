"""The files of a checkpoint on this machine, as the sink reads and writes them without Java."""

from pathlib import Path

import pytest

from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.local_folder import local_folder
from eosin.pipeline.sink.checkpoint import LocalCheckpoint, has_state


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        ("file:/data/a", "/data/a"),
        ("file:///data/a", "/data/a"),
        ("file:/data/a b%20#c?d", "/data/a b%20#c?d"),
        ("/data/a", None),
        ("s3a://bucket/a", None),
        ("hdfs://name/data", None),
    ],
)
def test_a_location_is_a_folder_here_if_hadoop_says_so_and_nothing_in_it_is_unescaped(
    location: str, folder: str | None
) -> None:
    assert local_folder(location) == (None if folder is None else Path(folder))


def test_a_note_is_created_once_and_deleted_with_the_checksum_of_hadoop(tmp_path: Path) -> None:
    checkpoint = LocalCheckpoint(tmp_path)
    assert checkpoint.names("sink-p") == []
    assert checkpoint.create("sink-p/7.run")
    assert not checkpoint.create("sink-p/7.run")
    (tmp_path / "sink-p" / ".7.run.crc").write_bytes(b"crc")
    assert checkpoint.names("sink-p") == ["7.run"]
    checkpoint.delete("sink-p/7.run")
    checkpoint.delete("sink-p/7.run")
    assert list((tmp_path / "sink-p").iterdir()) == []


def test_the_range_of_a_batch_is_the_text_of_its_entry_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for batch, text in ((1, "a"), (2, "b"), (3, "a")):
        (tmp_path / "offsets" / str(batch)).write_text(text)
    checkpoint = LocalCheckpoint(tmp_path)
    assert checkpoint.range_hash(1) == checkpoint.range_hash(3) != checkpoint.range_hash(2)
    with pytest.raises(ConflictingSettings, match="asynchronous progress tracking"):
        checkpoint.range_hash(4)


def test_a_query_has_state_once_a_task_has_stored_some(tmp_path: Path) -> None:
    checkpoint = LocalCheckpoint(tmp_path)
    assert not has_state(checkpoint)
    (tmp_path / "state" / "0").mkdir(parents=True)
    assert has_state(checkpoint)
