"""`eosin format`: a directory of a broker of a quorum, and one sentence for what cannot be one."""

import shutil
from pathlib import Path

import pytest

from eosin.cli.__main__ import main
from eosin.protocol.names import is_usable_uuid
from eosin.runtime.chance import SeededChance
from eosin.storage.disk.data_directory import DataDirectory
from eosin.storage.disk.interfaces import UnusableDirectory
from eosin.storage.disk.meta_properties import DirectoryKind, MetaProperties
from eosin.storage.disk.space import DiskSpace
from eosin.storage.disk.system import SystemDisk

CLUSTER = "abcdefghijklmnopqrstuw"
OTHER = "ABCDEFGHIJKLMNOPQRSTUw"
APACHE_KAFKAS = f"#\n#Sun Nov 22 22:45:00 UTC 2026\ncluster.id={CLUSTER}\ndirectory.id=CkwYLhtkTpCOl2gHYR9TWA\n"
APACHE_KAFKAS += "node.id=3\nversion=1\n"


def formatted(path: Path, *, cluster_id: str = CLUSTER, node_id: str = "3") -> int:
    return main(["format", "--cluster-id", cluster_id, "--node-id", node_id, "--data-dir", str(path)])


def properties(path: Path) -> MetaProperties:
    return MetaProperties.decode((path / "meta.properties").read_bytes())


def opened(path: Path, *, cluster_id: str | None = CLUSTER, joined: bool = True) -> DataDirectory:
    disk = SystemDisk()
    space = DiskSpace(disk, str(path), reserve_bytes=0, elapsed_ms=lambda: 0)
    directory = DataDirectory(disk, str(path), space)
    directory.open(node_id=3, cluster_id=cluster_id, chance=SeededChance(1), joined=joined)
    directory.close()
    return directory


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.rglob("*")) if path.exists() else []


def test_a_directory_is_formatted_in_apache_kafkas_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert formatted(tmp_path / "data") == 0
    assert capsys.readouterr().out == f"{tmp_path}/data is formatted for broker 3 of cluster {CLUSTER}\n"
    lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    found = properties(tmp_path / "data")
    assert lines == [
        "version=1",
        f"cluster.id={CLUSTER}",
        "node.id=3",
        f"directory.id={found.directory_id}",
        "eosin.format=1",
        "eosin.cluster=kraft",
    ]
    assert is_usable_uuid(found.directory_id)
    assert formatted(tmp_path / "other") == 0
    assert properties(tmp_path / "other").directory_id != found.directory_id


def test_formatting_again_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    formatted(tmp_path)
    before = properties(tmp_path)
    assert formatted(tmp_path) == 0
    assert "was formatted before for broker 3" in capsys.readouterr().out
    assert properties(tmp_path) == before


def test_a_directory_that_apache_kafkas_tool_has_formatted_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(APACHE_KAFKAS)
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"controllers only")
    opened(tmp_path)
    assert (tmp_path / "meta.properties").read_text() == APACHE_KAFKAS + "eosin.format=1\neosin.cluster=kraft\n"
    assert properties(tmp_path) == MetaProperties(CLUSTER, 3, "CkwYLhtkTpCOl2gHYR9TWA", DirectoryKind.KRAFT)


def test_a_directory_without_an_id_of_its_own_gets_one(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=3\n")
    opened(tmp_path)
    assert is_usable_uuid(properties(tmp_path).directory_id)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (APACHE_KAFKAS.replace(CLUSTER, OTHER), f"it belongs to cluster {OTHER}, not {CLUSTER}"),
        (APACHE_KAFKAS.replace("id=3", "id=4"), "it belongs to node 4, not 3"),
        (
            APACHE_KAFKAS + "eosin.format=1\n",
            "it belongs to a broker that runs alone: name another directory with --data-dir,"
            " or see eosin format --adopt",
        ),
        (
            APACHE_KAFKAS + "eosin.format=2\neosin.cluster=kraft\n",
            "it has format 2, and this version of Eosin reads up to 1",
        ),
        (
            APACHE_KAFKAS + "eosin.cluster=raft\n",
            "eosin.cluster is 'raft', which this version of Eosin does not know",
        ),
        (
            APACHE_KAFKAS.replace("CkwYLhtkTpCOl2gHYR9TWA", "AAAAAAAAAAAAAAAAAAAAAg"),
            "directory.id in meta.properties must be an id of its own, not 'AAAAAAAAAAAAAAAAAAAAAg'",
        ),
        ("version=1\n", "meta.properties lacks version=1, cluster.id or node.id"),
    ],
)
def test_a_directory_of_somebody_else_is_refused_and_left_alone(
    content: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_text(content)
    assert formatted(tmp_path) == 2
    assert capsys.readouterr().err == f"eosin format: cannot format {tmp_path}: {sentence}\n"
    with pytest.raises(UnusableDirectory) as refused:
        opened(tmp_path)
    assert str(refused.value) == sentence
    assert names(tmp_path) == ["meta.properties"]
    assert (tmp_path / "meta.properties").read_text() == content


def test_a_directory_with_anything_in_it_is_never_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "holiday.jpg").touch()
    assert formatted(tmp_path) == 2
    assert (
        "it has no meta.properties, and holiday.jpg is in it: only an empty one is formatted" in capsys.readouterr().err
    )
    assert names(tmp_path) == ["holiday.jpg"]


def test_metadata_of_a_broker_that_runs_alone_are_refused_whatever_the_properties_say(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(APACHE_KAFKAS)
    (tmp_path / "__eosin_metadata-0").mkdir()
    with pytest.raises(UnusableDirectory, match="a broker that runs alone"):
        opened(tmp_path)


def test_a_broker_that_runs_alone_refuses_the_directory_of_a_quorums_broker(tmp_path: Path) -> None:
    formatted(tmp_path)
    with pytest.raises(UnusableDirectory, match=r"a broker of a quorum: give its controllers in controller\.quorum"):
        opened(tmp_path, joined=False)


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_directory_needs_the_id_of_a_cluster(exists: bool, tmp_path: Path) -> None:
    path = tmp_path / "data"
    if exists:
        path.mkdir()
    with pytest.raises(UnusableDirectory, match="it is not formatted: run eosin format, or give the cluster's id"):
        opened(path, cluster_id=None)
    assert path.exists() == exists
    assert names(path) == []
    opened(path)
    assert opened(path, cluster_id=None).cluster_id == CLUSTER


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "complaint"),
    [
        ("short", "3", "--cluster-id must be 22 characters of URL-safe base64"),
        ("A" * 22, "3", "--cluster-id must be 22 characters of URL-safe base64"),
        (CLUSTER, "-1", "must be an integer from 0 to 2147483647, not '-1'"),
        (CLUSTER, "2147483648", "must be an integer from 0 to 2147483647, not '2147483648'"),
    ],
)
def test_ids_that_cannot_be_are_refused(
    cluster_id: str, node_id: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = formatted(tmp_path / "data", cluster_id=cluster_id, node_id=node_id)
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    assert complaint in capsys.readouterr().err
    assert names(tmp_path) == []


def test_the_command_line_without_a_needed_option_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["format", "--node-id", "1"])
    assert ended.value.code == 2
    said = "eosin format: the following arguments are required: --cluster-id (eosin format --help)\n"
    assert capsys.readouterr().err == said


# The epoch of the last run


def epoch_claimed(path: Path) -> int:
    disk = SystemDisk()
    directory = DataDirectory(disk, str(path), DiskSpace(disk, str(path), reserve_bytes=0, elapsed_ms=lambda: 0))
    contents = directory.open(node_id=3, cluster_id=CLUSTER, chance=SeededChance(2), joined=True)
    directory.close()
    return contents.broker_epoch


def run(path: Path, *, unfenced_with: int | None, stopped_with: int | None, outlives_crashes: bool = False) -> None:
    disk = SystemDisk()
    directory = DataDirectory(disk, str(path), DiskSpace(disk, str(path), reserve_bytes=0, elapsed_ms=lambda: 0))
    directory.open(node_id=3, cluster_id=CLUSTER, chance=SeededChance(1), joined=True)
    if unfenced_with is not None:
        directory.save_broker_epoch(unfenced_with, outlives_crashes=outlives_crashes)
    if stopped_with is not None:
        directory.mark_clean(broker_epoch=stopped_with)
    directory.close()


def test_the_epoch_of_the_last_run_is_claimed_after_a_crash_where_nothing_acknowledged_can_be_lost(
    tmp_path: Path,
) -> None:
    run(tmp_path, unfenced_with=40, stopped_with=None, outlives_crashes=True)
    assert epoch_claimed(tmp_path) == 40
    assert epoch_claimed(tmp_path) == 40, "a start that came to nothing has changed nothing"
    run(tmp_path, unfenced_with=41, stopped_with=None)
    assert epoch_claimed(tmp_path) == -1, "the last run could lose something, whatever the one before could"


def test_a_copy_of_the_directory_of_a_broker_that_has_crashed_claims_nothing(tmp_path: Path) -> None:
    there, copied = tmp_path / "there", tmp_path / "copied"
    there.mkdir()
    run(there, unfenced_with=40, stopped_with=None, outlives_crashes=True)
    shutil.copytree(there, copied)
    assert epoch_claimed(there) == 40
    assert epoch_claimed(copied) == -1


def test_a_stop_that_names_another_epoch_claims_nothing_though_crashes_lose_nothing(tmp_path: Path) -> None:
    run(tmp_path, unfenced_with=41, stopped_with=40, outlives_crashes=True)
    assert epoch_claimed(tmp_path) == -1


def test_the_epoch_of_the_last_run_is_claimed_once_after_a_clean_stop(tmp_path: Path) -> None:
    run(tmp_path, unfenced_with=40, stopped_with=40)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":40}'
    assert epoch_claimed(tmp_path) == 40
    assert epoch_claimed(tmp_path) == -1, "this run did not stop cleanly"


@pytest.mark.parametrize(
    ("unfenced", "stopped"),
    [(40, None), (None, None), (None, 40), (41, 40)],
    ids=["killed", "never unfenced, killed", "never unfenced", "a mark of another run"],
)
def test_no_epoch_is_claimed_without_proof(unfenced: int | None, stopped: int | None, tmp_path: Path) -> None:
    run(tmp_path, unfenced_with=unfenced, stopped_with=stopped)
    assert epoch_claimed(tmp_path) == -1


def test_the_empty_mark_of_an_older_release_claims_nothing(tmp_path: Path) -> None:
    run(tmp_path, unfenced_with=40, stopped_with=None)
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert epoch_claimed(tmp_path) == -1


def test_a_copy_gets_an_id_of_its_own_when_its_line_is_removed(tmp_path: Path) -> None:
    run(tmp_path, unfenced_with=40, stopped_with=40)
    before, file = properties(tmp_path), tmp_path / "meta.properties"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "directory.id" not in line))
    assert epoch_claimed(tmp_path) == -1, "nobody knows what the copy lacks"
    after = properties(tmp_path)
    assert is_usable_uuid(after.directory_id)
    assert after.directory_id != before.directory_id
    assert file.read_text().count("eosin.cluster=kraft") == 1
