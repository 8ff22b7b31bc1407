"""What `eosin dump-log` and `eosin check` tell of a journal."""

from batches import ORDERS, TOPIC_ID, data
from manual_journal import DATA_DIR, JournalledLogs

from eosin.cli.dump_lines import line
from eosin.protocol.names import uuid_text
from eosin.storage.inspection.directory import read_directory
from eosin.storage.inspection.dump import DumpOptions, dump_file
from eosin.storage.inspection.names import named
from eosin.storage.inspection.values import EntryFound, FileProblem, FileStart, GroupFound, Value
from eosin.storage.journal.journal import FILE_PREFIX

FIRST_FILE = f"{DATA_DIR}/{FILE_PREFIX}0"


async def journalled() -> JournalledLogs:
    logs = JournalledLogs()
    log = await logs.open()
    for _ in range(3):
        await logs.append(log, data())
    return logs


def dumped(logs: JournalledLogs) -> list[Value]:
    file = named(FIRST_FILE)
    assert file is not None
    return list(dump_file(logs.disk, file, DumpOptions()))


async def test_dump_log_shows_groups_and_the_entries_of_each_log() -> None:
    start, *found = dumped(await journalled())
    assert isinstance(start, FileStart)
    groups = [value for value in found if isinstance(value, GroupFound)]
    entries = [value for value in found if isinstance(value, EntryFound)]
    assert [(group.generation, group.sequence) for group in groups] == [(1, 1), (1, 2)]
    assert [(entry.topic, entry.partition, entry.base_offset, entry.end_offset) for entry in entries] == [
        (*ORDERS, 1, 2),
        (*ORDERS, 2, 3),
    ]
    assert {entry.topic_id for entry in entries} == {uuid_text(TOPIC_ID)}
    shown = "\n".join(line(value) for value in found)
    assert "orders-0" in shown
    assert "offsets 2 " in shown


async def test_damage_before_the_last_group_is_a_problem() -> None:
    logs = await journalled()
    logs.disk.damage(FIRST_FILE, 90)
    assert [value.position for value in dumped(logs) if isinstance(value, FileProblem)] == [0]
    directory = read_directory(logs.disk, DATA_DIR)
    assert "damaged at byte 0" in directory.problems[0].reason


async def test_a_sound_journal_and_a_torn_last_group_are_no_problem() -> None:
    logs = await journalled()
    assert not read_directory(logs.disk, DATA_DIR).problems
    logs.disk.damage(FIRST_FILE, 600)
    assert not read_directory(logs.disk, DATA_DIR).problems
    assert len([value for value in dumped(logs) if isinstance(value, GroupFound)]) == 1


async def test_a_missing_file_is_a_problem_until_the_stop_was_clean() -> None:
    logs = await journalled()
    disk = logs.disk.killed()
    disk.unlink(FIRST_FILE)
    assert "is missing" in read_directory(disk, DATA_DIR).problems[0].reason
    await logs.close()
    assert not read_directory(logs.disk, DATA_DIR).problems
