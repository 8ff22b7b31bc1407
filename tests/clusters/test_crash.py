"""Three brokers under transactional copiers of three clients, with one process after the other killed, and operators
who make mistakes."""

from collections import Counter
from pathlib import Path

import pytest
from cluster_crash import CLIENTS, RECORDS, Books, Figures, series
from cluster_mistakes import Mistakes, WronglyAccepted
from toolchains import skipped_without

from eosin.protocol.names import TopicPartition
from eosin.storage.disk.lost_copies import LostCopies
from eosin.storage.disk.system import SystemDisk


@pytest.mark.full
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", ["eosin", "mixed"])
def test_copies_are_exact_whatever_is_killed(tmp_path: Path, form: str) -> None:
    with skipped_without():
        figures = series(tmp_path, form=form, durability="fsync", seed="7", rounds=1)
    assert figures.records + figures.lacking == len(CLIENTS) * RECORDS
    assert figures.losses.total() > 0
    assert figures.batches > 3 * len(CLIENTS) * 2


def test_a_loss_that_is_accepted_though_nothing_is_lost_ends_the_series(tmp_path: Path) -> None:
    partition = TopicPartition("target", 0)
    mistakes = Mistakes("nobody listens", [tmp_path])
    mistakes.accept_loss(tmp_path, partition)
    assert mistakes.made == {"the word that a loss is accepted, refused": 1}
    LostCopies(SystemDisk(), str(tmp_path)).wait(partition, ())
    with pytest.raises(WronglyAccepted, match=r"the loss of target-0 was accepted in .*records that only lost copies"):
        mistakes.accept_loss(tmp_path, partition)
    assert not mistakes.may_lack


def test_a_campaign_that_was_stopped_goes_on_with_its_books(tmp_path: Path) -> None:
    path = tmp_path / "books.json"
    books = Books(path, form="mixed", seed=3)
    books.done(Figures(5, 45_000, Counter({"aiokafka in commit": 1}), 70, 200, Counter({"leader on Eosin killed": 4})))
    losses, mistakes = Counter({"leader on Eosin killed": 1, "controller killed": 2}), Counter({"unclean election": 1})
    books.done(Figures(5, 44_990, Counter(), 50, 100, losses, mistakes, 10))
    again = Books(path, form="mixed", seed=3)
    assert (again.series, again.figures) == (2, books.figures)
    assert again.figures == Figures(
        10,
        89_990,
        Counter({"aiokafka in commit": 1}),
        70,
        300,
        Counter({"leader on Eosin killed": 5, "controller killed": 2}),
        mistakes,
        10,
    )
    assert "nothing lost or doubled, but for 10 records by unclean elections" in again.figures.lines()[0]


def test_the_books_of_another_campaign_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "books.json"
    Books(path, form="mixed", seed=3).done(Figures(5))
    for form, seed, clients in (("eosin", 3, CLIENTS), ("mixed", 4, CLIENTS), ("mixed", 3, ("eosin",))):
        with pytest.raises(ValueError, match=r"is about form mixed and seed 3 with .*aiokafka"):
            Books(path, form=form, seed=seed, clients=clients)


def test_what_the_copiers_of_a_series_said_is_kept_if_one_was_stuck(tmp_path: Path) -> None:
    said = "a copier is stuck"
    books = Books(tmp_path / "books.json", form="eosin", seed=3)
    books.done(Figures(5), said)
    books.done(Figures(5, stuck=Counter({"kafka-python in commit": 1})), said)
    (kept,) = tmp_path.glob("books-stuck-*")
    assert (kept.name, kept.read_text()) == ("books-stuck-1.log", "a copier is stuck")
