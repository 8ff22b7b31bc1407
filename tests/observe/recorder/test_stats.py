"""Transactions that ended are counted, whenever somebody looks (console.md 4.2)."""

from eosin.observe.recorder.stats import TransactionStats


def test_transactions_are_counted_once_whether_alike_or_not_and_however_often_somebody_looks() -> None:
    stats = TransactionStats()
    stats.uncounted += [("commit", 2, 30, 3, 4, 1)] * 3
    stats.uncounted.append(("timeout", 0, 60_001, 7, 8, 2000))
    for _ in range(2):
        assert stats.outcomes == {("commit", "tv2"): 3, ("timeout", "tv0"): 1}
        assert (sum(stats.duration_ms.counts), stats.duration_ms.total) == (4, 3 * 30 + 60_001)
        assert (sum(stats.markers_ms.counts), stats.markers_ms.total) == (4, 3 * 3 + 7)
        assert (sum(stats.commit_ms.counts), stats.commit_ms.total) == (3, 3 * 4), "of commits alone"
        assert (stats.partitions.counts[0], stats.partitions.counts[-1]) == (3, 1)
    stats.uncounted.append(("commit", 2, 30, 3, 4, 1))
    assert stats.outcomes["commit", "tv2"] == 4
