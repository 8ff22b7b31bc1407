"""`eosin format --adopt`: what a quorum is told of a directory's topics, and one sentence where that cannot be."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from consumer_group import RuledGroup
from quorum_log import snapshot_of
from share_group import RuledShareGroup

from eosin.cli.__main__ import main
from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.cluster.quorum import bootstrap
from eosin.model.acls import Acl
from eosin.model.cluster import ConfigChange
from eosin.model.credentials import CredentialChange, StoredCredential
from eosin.model.features import SHARE_VERSION, SUPPORTED_JOINED
from eosin.model.quota_table import QuotaChange
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import uuid_from_text
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.records.internal import encode_key, encode_value
from eosin.protocol.schemas.records import cluster_metadata as alone
from eosin.protocol.schemas.records import quorum
from eosin.protocol.schemas.records.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from eosin.protocol.types import Message
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.storage.disk.meta_properties import DirectoryKind, MetaProperties
from eosin.storage.disk.system import SystemDisk
from eosin.storage.manager import Durability, LogManager

CLUSTER = "abcdefghijklmnopqrstuw"
OTHER = "ABCDEFGHIJKLMNOPQRSTUw"
HIGHEST_SHARE_VERSION = SUPPORTED_JOINED[SHARE_VERSION][1]
LEVELS = (FeatureLevelRecord("metadata.version", 33), FeatureLevelRecord("eligible.leader.replicas.version", 1))


class Place:
    """A broker's directory, and one of a controller that Apache Kafka's tool has formatted."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.controller = folder / "controller"
        self.log = self.controller / "__cluster_metadata-0"
        self.log.mkdir(parents=True)
        self.properties(self.controller, node_id=1000)
        (self.controller / bootstrap.FILE_NAME).write_bytes(snapshot_of(LEVELS))
        self.vote(1000)

    def levels(self, *levels: FeatureLevelRecord) -> None:
        """Begin with these levels of features, too."""
        (self.controller / bootstrap.FILE_NAME).write_bytes(snapshot_of((*LEVELS, *levels)))

    def vote(self, *voters: int) -> None:
        named = quorum.VotersRecord(tuple(quorum.QuorumVoter(voter) for voter in voters))
        (self.log / bootstrap.FIRST_CHECKPOINT).write_bytes(snapshot_of((), controls=[named]))

    def properties(self, folder: Path, *, node_id: int, cluster_id: str = CLUSTER) -> None:
        text = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id=CkwYLhtkTpCOl2gHYR9TWA\n"
        (folder / "meta.properties").write_text(text)

    async def run_alone(self, *, clean: bool = True, topics: int = 1, users: tuple[CredentialChange, ...] = ()) -> None:
        clock, chance = SystemClock(), SeededChance(1)
        logs = LogManager(
            SystemDisk(),
            str(self.data),
            clock=clock,
            chance=chance,
            durability=Durability.OS,
            node_id=1,
            cluster_id=CLUSTER,
        )
        await logs.open()
        cluster = EmbeddedCluster(
            config=BrokerConfig(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=2),
            log_manager=logs,
            clock=clock,
            chance=chance,
        )
        await cluster.start()
        for number in range(topics):
            made = await cluster.create_topic(f"orders-{number}", partitions=2, configs={"retention.ms": "1000"})
            assert made.error == ErrorCode.NONE
        await cluster.allocate_block()
        await cluster.alter_broker_configs(None, [ConfigChange("log.retention.ms", "5000")])
        await cluster.alter_group_configs("g", [ConfigChange("consumer.session.timeout.ms", "50000")])
        await cluster.keep_secret(b"\xaa\xbb")
        await cluster.acl_entries(clock).create([Acl(2, "orders-0", 3, "User:a", "*", 3, 3)])
        await cluster.alter_quotas([QuotaChange((("user", "a"),), "producer_byte_rate", 1024.0)])
        await cluster.alter_credentials(lambda held: users)
        await logs.close(clean=clean)

    def append(self, partition: str, *records: NewRecord) -> None:
        """Put a batch behind all that is in a partition."""
        folder = self.data / partition
        folder.mkdir(exist_ok=True)
        with (folder / f"{0:020}.log").open("ab") as file:
            file.write(build_batch(records, timestamp=1, base_offset=1000))

    def adopt(self, *, node_id: int = 1, cluster_id: str = CLUSTER) -> int:
        words = ["format", "--cluster-id", cluster_id, "--node-id", str(node_id), "--data-dir", str(self.data)]
        return main([*words, "--adopt", str(self.controller)])

    @property
    def records(self) -> list[Message]:
        return bootstrap.metadata_records((self.controller / bootstrap.FILE_NAME).read_bytes())

    def all_files(self) -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for folder in (self.data, self.controller)
            for path in folder.rglob("*")
            if path.is_file() and path.name != ".lock"
        }


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_the_controller_begins_with_the_topics_settings_and_producer_ids(place: Place) -> None:
    await place.run_alone()
    assert place.adopt() == 0
    found = place.records
    assert tuple(found[:2]) == LEVELS
    own = MetaProperties.decode((place.data / "meta.properties").read_bytes())
    assert own.kind is DirectoryKind.KRAFT
    assert (own.cluster_id, own.node_id) == (CLUSTER, 1)
    assert ProducerIdsRecord(1, -1, 1000) in found
    assert ConfigRecord(4, "", "log.retention.ms", "5000") in found
    assert ConfigRecord(32, "g", "consumer.session.timeout.ms", "50000") in found
    assert ConfigRecord(4, "", "eosin.scram.secret", "aabb") in found, "who was never there keeps its salt"
    (acl,) = (each for each in found if isinstance(each, AccessControlEntryRecord))
    assert acl == AccessControlEntryRecord(acl.id, 2, "orders-0", 3, "User:a", "*", 3, 3)
    assert ClientQuotaRecord((EntityData("user", "a"),), "producer_byte_rate", 1024.0) in found
    assert ConfigRecord(2, "orders-0", "retention.ms", "1000") in found
    assert not [each for each in found if isinstance(each, ConfigRecord) and each.name == "delete.retention.ms"]
    ids = {each.name: each.topic_id for each in found if isinstance(each, TopicRecord)}
    assert ids.keys() == {"orders-0", "__consumer_offsets", "__transaction_state"}
    partitions = [each for each in found if isinstance(each, PartitionRecord)]
    assert len(partitions) == 2 + 1 + 2
    directory = uuid_from_text(own.directory_id)
    assert partitions[-1] == PartitionRecord(
        partition_id=1,
        topic_id=ids["orders-0"],
        replicas=(1,),
        isr=(1,),
        leader=-1,
        leader_epoch=1,
        partition_epoch=0,
        directories=(directory,),
        last_known_elr=(1,),
    )


async def test_no_broker_can_use_the_directory_alone_any_more_and_its_metadata_are_kept(place: Place) -> None:
    await place.run_alone()
    assert place.adopt() == 0
    names = [each.name for each in place.data.iterdir()]
    assert "__eosin_metadata-0" not in names
    assert [each for each in names if each.startswith("__eosin_metadata-0.") and each.endswith("-stray")]
    assert (place.data / ".kafka_cleanshutdown").exists()
    with pytest.raises(OSError, match="it belongs to a broker of a quorum"):
        await place.run_alone()


async def test_the_epoch_is_above_every_one_that_is_in_a_log(place: Place) -> None:
    await place.run_alone()
    taken_over = place.data / "orders-0-1"
    taken_over.mkdir(exist_ok=True)
    (taken_over / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n57 10\n")
    assert place.adopt() == 0
    assert {each.leader_epoch for each in place.records if isinstance(each, PartitionRecord)} == {58}


async def test_many_topics_are_told_in_several_batches(place: Place) -> None:
    await place.run_alone(topics=300)
    assert place.adopt() == 0
    assert len([each for each in place.records if isinstance(each, PartitionRecord)]) == 603


async def test_an_adoption_that_stopped_early_is_done_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: SystemDisk, old: str, new: str) -> None:
        raise OSError(28, "No space left on device")

    await place.run_alone()
    with monkeypatch.context() as patched:
        patched.setattr(SystemDisk, "rename", full)
        assert place.adopt() == 2
    interrupted = place.records
    with pytest.raises(OSError, match="it belongs to a broker of a quorum"):
        await place.run_alone()
    assert place.adopt() == 0
    assert place.records == interrupted


async def test_a_user_who_was_deleted_after_an_adoption_that_stopped_early_does_not_come_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = SystemDisk.write_atomic

    def full(self: SystemDisk, path: str, data: bytes, *, durable: bool = True) -> None:
        if path.endswith("/meta.properties"):
            raise OSError(28, "No space left on device")
        whole(self, path, data, durable=durable)

    by_tool = UserScramCredentialRecord("of-the-tool", 1, b"salt", b"stored", b"server", 4096)
    (place.controller / bootstrap.FILE_NAME).write_bytes(snapshot_of((*LEVELS, by_tool)))
    stored = StoredCredential(b"salt", b"stored", b"server", 4096)
    await place.run_alone(users=(CredentialChange("stays", 1, stored), CredentialChange("leaves", 1, stored)))
    with monkeypatch.context() as patched:
        patched.setattr(SystemDisk, "write_atomic", full)
        assert place.adopt() == 2
    await place.run_alone(topics=0, users=(CredentialChange("leaves", 1, None),))
    assert place.adopt() == 0
    users = [each.name for each in place.records if isinstance(each, UserScramCredentialRecord)]
    assert users == ["of-the-tool", "stays"]


async def test_consumer_groups_without_members_go_on_and_the_command_says_how(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    await place.run_alone()
    (place.data / "__consumer_offsets-7").mkdir()  # made, and never written to
    place.append("__consumer_offsets-0", *_records_of(_group(leaves=True)))
    assert place.adopt() == 0
    assert (
        "consumer groups that go on: 1\nthe cluster begins with group.version 0: its consumers need"
        " group.protocol=classic, until eosin features upgrade group.version\n"
    ) in capsys.readouterr().out


async def test_consumer_groups_go_on_with_their_members_where_the_cluster_serves_them(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    await place.run_alone()
    place.levels(FeatureLevelRecord("group.version", 1))
    _members(place)
    file = place.data / "__consumer_offsets-0" / f"{0:020}.log"
    before = file.read_bytes()
    assert place.adopt() == 0
    said = capsys.readouterr().out
    assert "\nconsumer groups that go on: 1\n" in said
    assert "group.version 0" not in said
    assert file.read_bytes() == before, "members are in the log, and the cluster has the log"
    assert FeatureLevelRecord("group.version", 1) in place.records


async def test_share_groups_go_on_as_well_where_the_cluster_serves_them(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    await place.run_alone()
    place.levels(FeatureLevelRecord("share.version", 1))
    place.append("__eosin_metadata-0", _start(alone.FeatureLevel("share.version", 1)))
    _share_members(place)
    assert place.adopt() == 0
    assert capsys.readouterr().out.endswith("\nshare groups that go on: 1\n")


async def test_a_level_that_the_cluster_does_not_have_is_told_for_each_kind(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    await place.run_alone()
    levels = [alone.FeatureLevel(name, 1) for name in ("share.version", "streams.version")]
    place.append("__eosin_metadata-0", _start(*levels))
    assert place.adopt() == 0
    assert capsys.readouterr().out.endswith(
        "\nthe cluster begins with share.version 0: its share groups are refused, until eosin features upgrade"
        " share.version\nthe cluster begins with streams.version 0: its applications need group.protocol=classic, until"
        " eosin features upgrade streams.version\n"
    )


async def test_a_directory_at_level_1_of_group_version_is_adopted_with_a_word_where_the_cluster_is_at_0(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    await place.run_alone()
    level = alone.FeatureLevel("group.version", 1)
    place.append("__eosin_metadata-0", _start(level))
    assert place.adopt() == 0
    assert capsys.readouterr().out.endswith("until eosin features upgrade group.version\n")


def _group(*, leaves: bool) -> RuledGroup:
    group = RuledGroup(orders=1)
    group.join("m")
    if leaves:
        group.heartbeat("m", -1)
    return group


def _records_of(group: RuledGroup) -> list[NewRecord]:
    return [NewRecord(each.key, each.value) for each in group.log.values()]


def _start(*levels: alone.FeatureLevel) -> NewRecord:
    return NewRecord(encode_key(alone.StartKey()), encode_value(alone.StartRecord(1, levels), 0))


def _emptied(place: Place) -> None:
    (segment,) = (place.data / "__eosin_metadata-0").glob("*.log")
    segment.write_bytes(b"")


def _members(place: Place) -> None:
    place.append("__consumer_offsets-0", *_records_of(_group(leaves=False)))


def _share_members(place: Place) -> None:
    group = RuledShareGroup(orders=1)
    group.join("m")
    records = [NewRecord(each.key, each.value) for each in group.log.values()]
    place.append("__consumer_offsets-0", *records)


def _torn_offsets(place: Place) -> None:
    _members(place)
    file = place.data / "__consumer_offsets-0" / f"{0:020}.log"
    file.write_bytes(file.read_bytes()[:-1])


def _unknown_level(place: Place) -> None:
    place.append("__eosin_metadata-0", _start(alone.FeatureLevel("queue.version", 1)))


def _share_version(place: Place) -> None:
    place.levels(FeatureLevelRecord("share.version", HIGHEST_SHARE_VERSION + 1))


def _foreign_controller(place: Place) -> None:
    place.properties(place.controller, node_id=1000, cluster_id=OTHER)


def _same_node(place: Place) -> None:
    place.properties(place.controller, node_id=1)


def _started(place: Place) -> None:
    (place.log / "00000000000000000000.log").touch()


def _three_voters(place: Place) -> None:
    place.vote(1000, 1001, 1002)


def _static_voters(place: Place) -> None:
    (place.log / bootstrap.FIRST_CHECKPOINT).unlink()


def _formatted_by_4_4(place: Place) -> None:
    (place.controller / bootstrap.FILE_NAME).unlink()


def _unformatted(place: Place) -> None:
    (place.controller / bootstrap.FILE_NAME).unlink()
    (place.log / bootstrap.FIRST_CHECKPOINT).unlink()


def _torn(place: Place) -> None:
    file = place.controller / bootstrap.FILE_NAME
    file.write_bytes(file.read_bytes()[:-10])


def _anothers(place: Place) -> None:
    other = (TopicRecord("theirs", b"t" * 16), PartitionRecord(0, b"t" * 16, replicas=(2,)))
    (place.controller / bootstrap.FILE_NAME).write_bytes(snapshot_of((*LEVELS, *other)))


def _without_metadata(place: Place) -> None:
    (place.data / "__eosin_metadata-0").rename(place.data / "elsewhere-0")


def _unclean(place: Place) -> None:
    (place.data / ".kafka_cleanshutdown").unlink()


def _damaged(place: Place) -> None:
    (segment,) = (place.data / "__eosin_metadata-0").glob("*.log")
    whole = bytearray(segment.read_bytes())
    whole[70] ^= 1
    segment.write_bytes(whole)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_foreign_controller, f"belongs to cluster {OTHER}, not {CLUSTER}"),
        (_same_node, "is node 1, too: give it another node.id"),
        (_started, "was started: only one that never was takes topics over"),
        (_three_voters, "is not the only voter: format it with --standalone, and add others later"),
        (_static_voters, "is not the only voter: format it with --standalone, and add others later"),
        (_formatted_by_4_4, "formatted by Apache Kafka 4.4 or later: format and start it with 4.3, and upgrade it"),
        (_unformatted, "is no directory of a controller that kafka-storage has formatted"),
        (_torn, "cannot be read: it is no whole snapshot"),
        (_anothers, "another broker's topics are in the quorum already"),
        (_without_metadata, "it has no __eosin_metadata-0: no broker that ran alone has left it"),
        (_unclean, "its last stop was not clean: start its broker once more, and stop it with SIGTERM"),
        (_damaged, "__eosin_metadata-0 is damaged: wrong checksum"),
        (_emptied, "__eosin_metadata-0 has no record of a start"),
        (_members, "begins with group.version 0: format it with --feature group.version=1, or start its broker once"),
        (_torn_offsets, "__consumer_offsets-0 is damaged: "),
        (_unknown_level, "it is at level 1 of queue.version, which no quorum can be told of"),
        (
            _share_version,
            f"begins with share.version {HIGHEST_SHARE_VERSION + 1}, and brokers of Eosin join at 0 to"
            f" {HIGHEST_SHARE_VERSION}: format it anew as docs/",
        ),
        (
            _share_members,
            "share groups have members, as g, and the controller in ",
        ),
    ],
)
async def test_a_directory_that_cannot_be_adopted_is_refused_in_one_sentence_and_left_alone(
    place: Place, capsys: pytest.CaptureFixture[str], change: Callable[[Place], None], sentence: str
) -> None:
    await place.run_alone()
    change(place)
    before = place.all_files()
    assert place.adopt() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"eosin format: cannot adopt {place.data}: ")
    assert sentence in said
    assert said.count("\n") == 1
    assert place.all_files() == before


async def test_a_directory_of_another_node_or_cluster_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    await place.run_alone()
    before = place.all_files()
    assert place.adopt(node_id=2) == 2
    assert "it belongs to node 1, not 2" in capsys.readouterr().err
    assert place.adopt(cluster_id=OTHER) == 2
    assert f"it belongs to cluster {CLUSTER}, and the quorum has to be of the same id" in capsys.readouterr().err
    assert place.all_files() == before


async def test_a_directory_that_a_broker_has_open_is_not_adopted(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    await place.run_alone()
    lock = await asyncio.to_thread(SystemDisk().lock, f"{place.data}/.lock")
    assert place.adopt() == 2
    lock.release()
    assert capsys.readouterr().err.startswith(f"eosin format: cannot adopt {place.data}: ")
