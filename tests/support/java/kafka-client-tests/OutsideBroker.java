package org.apache.kafka.common.test.junit;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import scala.Option;

/** What tests ask a broker in their own process for, and a client can find out, too. */
public class OutsideBroker {
    private final EosinCluster cluster;
    private final int id;

    OutsideBroker(EosinCluster cluster, int id) {
        this.cluster = cluster;
        this.id = id;
    }

    /** The number that a test has for a node. */
    int told(int node) {
        return node;
    }

    public KafkaConfig config() throws Exception {
        Map<String, String> settings = new HashMap<>(cluster.config().serverProperties());
        String name = cluster.clientListener().value();
        settings.putAll(Map.of(
                "process.roles", "broker", "node.id", String.valueOf(id),
                "controller.listener.names", "CONTROLLER", "controller.quorum.bootstrap.servers", "localhost:1",
                "listeners", name + "://localhost:" + boundPort(cluster.clientListener()), "inter.broker.listener.name", name,
                "listener.security.protocol.map", name + ":PLAINTEXT,CONTROLLER:PLAINTEXT",
                "unstable.api.versions.enable", "false"));
        return new KafkaConfig(settings, false);
    }

    public boolean isShutdown() {
        return cluster.isDown(id);
    }

    public Option<?> authorizerPlugin() {
        return Option.empty();
    }

    public int boundPort(ListenerName listener) throws Exception {
        return cluster.nodes().stream().filter(each -> each.id() == id).findAny().orElseThrow().port();
    }

    public SocketServer socketServer() {
        return Stand.in(SocketServer.class, this);
    }

    public ReplicaManager replicaManager() {
        return Stand.in(ReplicaManager.class, new OutsideLogs(cluster, id));
    }

    public LogManager logManager() {
        return Stand.in(LogManager.class, new OutsideLogs(cluster, id));
    }

    public void shutdown(Duration longest) throws Exception {
        cluster.shutdownBroker(id);
    }

    public void awaitShutdown() { }

    public void startup() throws Exception {
        cluster.startBroker(id);
    }

    public GroupCoordinator groupCoordinator() {
        return Stand.in(GroupCoordinator.class, new Groups());
    }

    public MetadataCache metadataCache() {
        return Stand.in(MetadataCache.class, new Topics());
    }

    /** Of the group coordinator. */
    public static final class Groups {
        public Properties groupMetadataTopicConfigs() {
            return new Properties();
        }
    }

    /** Of what the broker knows of topics. */
    public final class Topics {
        public boolean contains(String topic) throws Exception {
            return cluster.described(topic).isPresent();
        }

        public boolean contains(TopicPartition partition) throws Exception {
            return numPartitions(partition.topic()).filter(each -> each > partition.partition()).isPresent();
        }

        public Optional<Integer> numPartitions(String topic) throws Exception {
            return cluster.described(topic).map(each -> each.partitions().size());
        }

        public Uuid getTopicId(String topic) throws Exception {
            return cluster.described(topic).map(TopicDescription::topicId).orElse(Uuid.ZERO_UUID);
        }

        public Optional<LeaderAndIsr> getLeaderAndIsr(String topic, int partition) throws Exception {
            return cluster.described(topic).filter(each -> each.partitions().size() > partition)
                    .map(each -> each.partitions().get(partition)).map(this::led);
        }

        public List<Node> getAliveBrokerNodes(ListenerName listener) throws Exception {
            return cluster.nodes();
        }

        private LeaderAndIsr led(TopicPartitionInfo partition) {
            List<Integer> synced = partition.isr().stream().map(each -> told(each.id())).toList();
            return new LeaderAndIsr(partition.leader() == null ? -1 : told(partition.leader().id()), synced);
        }
    }
}
