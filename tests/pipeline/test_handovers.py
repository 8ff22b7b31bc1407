"""Which batches were handed over to the sink, by the notes in a checkpoint. Nothing here needs Spark."""

from pathlib import PurePosixPath

import pytest

from eosin.pipeline.sink.handovers import Handovers


class FilesInMemory:
    """The files of a checkpoint, by their paths."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def names(self, folder: str) -> list[str]:
        paths = [PurePosixPath(each) for each in self.paths]
        return [each.name for each in paths if str(each.parent) == folder]

    def create(self, file: str) -> bool:
        if file in self.paths:
            return False
        self.paths.append(file)
        return True

    def delete(self, file: str) -> None:
        self.paths.remove(file)


@pytest.fixture
def files() -> FilesInMemory:
    """The files of one checkpoint."""
    return FilesInMemory()


def test_a_second_call_is_known_by_its_run_whichever_sink_it_comes_from(files: FilesInMemory) -> None:
    assert Handovers(files, "orders", "run-1").note(7)
    assert not Handovers(files, "orders", "run-1").note(7)
    assert Handovers(files, "orders", "run-2").note(7), "a replay comes with a new run"
    assert Handovers(files, "totals", "run-1").note(7), "another pipeline of the same query"


def test_the_last_batch_before_one_is_found_in_all_runs_and_not_in_what_others_have_put_there(
    files: FilesInMemory,
) -> None:
    for file in ("orders/3.run-1", "orders/7.run-1", "orders/.5.run-1.crc", "orders/note", "totals/5.run-1"):
        files.create(f"sink-{file}")
    notes = Handovers(files, "orders", "run-2")
    assert notes.last_before(3) is None
    assert notes.note(7)
    assert notes.last_before(7) == 3
    assert notes.note(9)
    assert [notes.last_before(each) for each in (9, 12)] == [7, 9]


def test_a_note_is_kept_until_a_later_batch_is_committed(files: FilesInMemory) -> None:
    files.create("sink-orders/7.run-1")
    notes = Handovers(files, "orders", "run-2")
    for batch in (8, 9):
        notes.note(batch)
    notes.forget_before(9)
    assert files.paths == ["sink-orders/9.run-2"]
    assert notes.last_before(10) == 9


def test_a_frame_that_is_lacking_is_remembered_until_a_later_batch_is_committed(files: FilesInMemory) -> None:
    first = Handovers(files, "orders", "run-1")
    first.note(7)
    assert first.lacks_a_frame is None
    first.note_second_frame(7)
    assert first.lacks_a_frame == 7
    again = Handovers(files, "orders", "run-2")
    again.note(8)
    assert (again.lacks_a_frame, again.last_before(8)) == (7, 7)
    again.forget_before(8)
    assert again.lacks_a_frame is None
    assert files.paths == ["sink-orders/8.run-2"]


@pytest.mark.parametrize("name", ["a/b", "..", "x:y"])
def test_any_name_of_a_pipeline_is_one_folder(files: FilesInMemory, name: str) -> None:
    notes = Handovers(files, name, "run-1")
    notes.note(1)
    assert notes.last_before(2) == 1
    folder, _, _ = files.paths[0].partition("/")
    assert files.names(folder) == ["1.run-1"]
    assert ":" not in folder
