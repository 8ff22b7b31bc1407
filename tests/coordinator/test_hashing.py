"""Which partition coordinates a name: Java's arithmetic, to the bit."""

import pytest

from eosin.coordinator.hashing import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("ab", 3105), ("hello", 99162322), ("Hello World", -862545276)],
)
def test_a_name_hashes_as_java_hashes_it(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_smallest_hash_has_no_absolute_value_and_counts_as_zero() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 50) == 0


def test_a_character_outside_the_basic_plane_is_two_units() -> None:
    assert java_hash("\U0001f600") == 31 * 0xD83D + 0xDE00 == java_hash("\ud83d\ude00")


def test_a_letter_beyond_ascii_is_one_unit() -> None:
    assert java_hash("é") == 0xE9


def test_every_partition_is_within_the_topic() -> None:
    assert {partition_for(f"tx-{n}", 50) for n in range(2000)} == set(range(50))
