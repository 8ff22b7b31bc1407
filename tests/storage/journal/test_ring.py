"""The ring: where groups go, and when a file may be written over."""

from batches import ORDERS
from hypothesis import given, settings
from hypothesis import strategies as st

from eosin.storage.disk.flusher import Flushable
from eosin.storage.journal.codec import BLOCK_BYTES, group_bytes
from eosin.storage.journal.ring import Place, Ring, Slot

LEAST = 8 * BLOCK_BYTES


class Log:
    """A log that only has a name."""

    topic_partition = ORDERS


def log() -> Flushable:
    return Log()  # type: ignore[return-value]


def ring(files: int, *, limit: int = 64 * LEAST) -> Ring:
    made = Ring(limit_bytes=limit, least_bytes=LEAST)
    for _ in range(files):
        made.add(made.growth)
    return made


def fill(ring: Ring, member: Flushable, end_offset: int = 1, *, now_s: float = 0.0) -> list[Place]:
    """Groups of one block until the file is full."""
    places = []
    slot: Slot | None = None
    while (place := ring.place(0, now_s)) is not None:
        slot = slot or place.slot
        if place.slot is not slot:
            ring.undo(place)
            break
        ring.note(place, member, end_offset)
        ring.durable(place)
        places.append(place)
    return places


def test_nothing_can_be_placed_before_there_is_a_file() -> None:
    empty = ring(0)
    assert empty.place(0, 0.0) is None
    assert empty.wants_a_file
    assert not empty.has_room


def test_groups_follow_each_other_and_number_their_generations() -> None:
    made = ring(2)
    first, second = made.place(0, 0.0), made.place(1000, 0.0)
    assert first is not None
    assert second is not None
    assert (first.position, second.position) == (0, first.size)
    assert second.size == group_bytes(1000)
    assert (first.header.sequence, second.header.sequence) == (1, 2)
    large = made.place(LEAST - 200 - BLOCK_BYTES, 0.0)
    assert large is not None
    assert (large.slot.number, large.position, large.header.generation) == (1, 0, 2)
    assert large.header.oldest_generation == 2, "no log had anything in the first file"


def test_a_full_ring_gives_no_place_until_the_logs_are_synced_and_a_group_announces_that() -> None:
    made, member = ring(2), log()
    fill(made, member, 5)
    fill(made, member, 9)
    assert made.place(0, 0.0) is None
    assert list(made.to_sync()) == [member]
    made.synced(member, 4)
    assert made.announcement() is None, "the file still holds an entry that ends at 5"
    made.synced(member, 5)
    assert made.place(0, 0.0) is None, "a power loss now would find the older generation missing"
    told = made.announcement()
    assert told is not None
    assert told.header.oldest_generation == 2
    made.durable(told)
    again = made.place(0, 0.0)
    assert again is not None
    assert (again.slot.number, again.position, again.header.generation) == (0, 0, 3)


def test_a_deleted_log_holds_no_file() -> None:
    made, member = ring(2), log()
    fill(made, member)
    fill(made, member)
    made.forget(member)
    assert [slot.number for slot in made.live] == [1]


def test_a_place_that_leaves_nothing_is_given_again() -> None:
    made = ring(1)
    place = made.place(100, 0.0)
    assert place is not None
    made.undo(place)
    assert made.place(100, 0.0) == place


def test_it_grows_to_two_files_and_further_only_if_they_fill_quickly() -> None:
    made, member = ring(1), log()
    assert not made.wants_a_file
    for _ in range(5):
        made.place(0, 0.0)
    assert made.wants_a_file, "there is no other file, and this one is half full"
    slow = ring(2)
    slow.place(0, 0.0)
    fill(slow, member, now_s=1000.0)
    assert not slow.is_hurried
    quick = ring(2)
    fill(quick, member)
    for _ in range(5):
        quick.place(0, 1.0)
    assert quick.is_hurried
    assert quick.wants_a_file


def test_all_files_together_stay_within_the_limit() -> None:
    made = ring(0, limit=64 * LEAST)
    while made.growth:
        made.add(made.growth)
    assert sum(made.sizes) <= 64 * LEAST
    assert max(made.sizes) == 16 * LEAST


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_file_is_written_over_while_a_log_needs_it(data: st.DataObject) -> None:
    made = ring(data.draw(st.integers(2, 4)))
    members = [log() for _ in range(3)]
    ends = dict.fromkeys(members, 0)
    needed: dict[Flushable, list[tuple[Slot, int, int]]] = {member: [] for member in members}
    for step in range(data.draw(st.integers(1, 120))):
        member = data.draw(st.sampled_from(members))
        match data.draw(st.sampled_from(("append", "append", "append", "sync"))):
            case "append":
                place = made.place(data.draw(st.integers(0, 1200)), float(step)) or made.announcement()
                if place is None:
                    continue
                for entries in needed.values():
                    for slot, generation, _ in entries:
                        assert slot.generation == generation, "it was written over"
                        assert place.header.oldest_generation <= generation
                ends[member] += 1
                made.note(place, member, ends[member])
                needed[member].append((place.slot, place.slot.generation, ends[member]))
                made.durable(place)
            case "sync":
                synced = data.draw(st.integers(0, ends[member]))
                made.synced(member, synced)
                needed[member] = [each for each in needed[member] if each[2] > synced]
