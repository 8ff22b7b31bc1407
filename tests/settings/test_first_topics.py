"""Topics to make before a broker is ready, as images of Kafka write them."""

import pytest

from eosin.settings.first_topics import FirstTopic, parse_first_topics
from eosin.settings.settings import SettingError


def test_topics_have_partitions_and_a_cleanup_policy() -> None:
    assert parse_first_topics("orders, items:3,prices:2:1:compact", key="--topics") == (
        FirstTopic("orders"),
        FirstTopic("items", 3),
        FirstTopic("prices", 2, {"cleanup.policy": "compact"}),
    )


def test_blanks_quotes_and_ends_of_lines_say_nothing() -> None:
    text = '"a:1:1, \\\n b:2:1,\n\n c:3:1 ,"'
    assert [str(each) for each in parse_first_topics(text, key="K")] == ["a:1", "b:2", "c:3"]


def test_another_separator_may_stand_between() -> None:
    assert [each.name for each in parse_first_topics("a:1:1\nb:1:1", key="K", separator="\n")] == ["a", "b"]


def test_words_of_a_command_line_behind_the_policy_are_settings() -> None:
    (topic,) = parse_first_topics("a:1:1:delete --config=retention.ms=60000 --config=segment.ms=10000", key="K")
    assert topic.configs == {"cleanup.policy": "delete", "retention.ms": "60000", "segment.ms": "10000"}


@pytest.mark.parametrize(
    "text", ["a b:1", "a:0", "a:-1", "a:x:1", "a:1:1:shrink", "a:1:1:delete --config=nothing=1", ".."]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"^--topics: "):
        parse_first_topics(text, key="--topics")
