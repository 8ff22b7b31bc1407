package org.apache.kafka.common.test.junit;

import java.io.File;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.IntUnaryOperator;
import kafka.cluster.Partition;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import scala.Option;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/** What tests ask a broker's logs for, and a client can find out, too: offsets are those of the leader. */
public final class OutsideLogs {
    private final EosinCluster cluster;
    private final int node;
    private final IntUnaryOperator told;

    /** `told` is the number that a test has for a node. */
    OutsideLogs(EosinCluster cluster, int node, IntUnaryOperator told) {
        this.cluster = cluster;
        this.node = node;
        this.told = told;
    }

    // --- of the replica manager

    public Option<UnifiedLog> localLog(TopicPartition partition) throws Exception {
        return isReplica(partition) ? Option.apply(log(partition)) : Option.empty();
    }

    public Option<Partition> onlinePartition(TopicPartition partition) throws Exception {
        return isReplica(partition) ? Option.apply(Stand.in(Partition.class, new One(partition))) : Option.empty();
    }

    // --- of the log manager

    public Option<UnifiedLog> getLog(TopicPartition partition, boolean future) throws Exception {
        return localLog(partition);
    }

    /** None: the files in which it notes how far it has cleaned are its own. */
    public Seq<File> liveLogDirs() {
        return CollectionConverters.asScala(List.<File>of()).toSeq();
    }

    public boolean getLog$default$2() {
        return false;
    }

    private boolean isReplica(TopicPartition partition) throws Exception {
        return described(partition).filter(each -> each.replicas().stream().anyMatch(one -> one.id() == node)).isPresent();
    }

    private Optional<TopicPartitionInfo> described(TopicPartition partition) throws Exception {
        return cluster.described(partition.topic()).filter(each -> each.partitions().size() > partition.partition())
                .map(each -> each.partitions().get(partition.partition()));
    }

    private UnifiedLog log(TopicPartition partition) {
        return Stand.in(UnifiedLog.class, new One(partition));
    }

    /** One partition with its log and the producers in it. */
    public final class One {
        private final TopicPartition partition;

        One(TopicPartition partition) {
            this.partition = partition;
        }

        public Option<UnifiedLog> leaderLogIfLocal() throws Exception {
            return isLeader() ? Option.apply(log(partition)) : Option.empty();
        }

        public boolean isLeader() throws Exception {
            return leader().filter(each -> each.id() == node).isPresent();
        }

        public Option<Object> leaderReplicaIdOpt() throws Exception {
            return OptionConverters.toScala(leader().map(each -> (Object) told.applyAsInt(each.id())));
        }

        public int getLeaderEpoch() throws Exception {
            return cluster.ours().listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get()
                    .leaderEpoch().orElseThrow();
        }

        private Optional<Node> leader() throws Exception {
            return described(partition).map(TopicPartitionInfo::leader);
        }

        public File dir() {
            return cluster.logs(node).resolve(partition.toString()).toFile();
        }

        public long logStartOffset() throws Exception {
            return offset(OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
        }

        public long logEndOffset() throws Exception {
            return offset(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
        }

        public long highWatermark() throws Exception {
            return logEndOffset();
        }

        public long lastStableOffset() throws Exception {
            return offset(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED);
        }

        public ProducerStateManager producerStateManager() {
            return Stand.in(ProducerStateManager.class, this);
        }

        public Map<Long, ProducerStateEntry> activeProducers() throws Exception {
            Map<Long, ProducerStateEntry> found = new HashMap<>();
            for (ProducerState each : cluster.ours().describeProducers(List.of(partition))
                    .partitionResult(partition).get().activeProducers()) {
                OptionalLong began = each.currentTransactionStartOffset();
                found.put(each.producerId(), new ProducerStateEntry(each.producerId(), (short) each.producerEpoch(),
                        each.coordinatorEpoch().orElse(-1), each.lastTimestamp(), began));
            }
            return found;
        }

        private long offset(OffsetSpec which, IsolationLevel level) throws Exception {
            return cluster.ours().listOffsets(Map.of(partition, which), new ListOffsetsOptions(level))
                    .partitionResult(partition).get().offset();
        }
    }
}
