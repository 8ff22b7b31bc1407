package org.apache.kafka.common.test.junit;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import kafka.server.SharedServer;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
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
                "process.roles", "broker", "node.id", String.valueOf(id), "log.dirs", cluster.logs(id).toString(),
                "controller.listener.names", "CONTROLLER", "controller.quorum.bootstrap.servers", "localhost:1",
                "listeners", name + "://localhost:" + boundPort(cluster.clientListener()), "inter.broker.listener.name", name,
                "listener.security.protocol.map", name + ":PLAINTEXT,CONTROLLER:PLAINTEXT",
                "unstable.api.versions.enable", "false"));
        return new KafkaConfig(settings, false);
    }

    public boolean isShutdown() {
        return cluster.isDown(id);
    }

    public BrokerState brokerState() {
        return isShutdown() ? BrokerState.NOT_RUNNING : BrokerState.RUNNING;
    }

    public String clusterId() throws Exception {
        return cluster.clusterId();
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
        return Stand.in(ReplicaManager.class, new OutsideLogs(cluster, id, this::told));
    }

    public LogManager logManager() {
        return Stand.in(LogManager.class, new OutsideLogs(cluster, id, this::told));
    }

    public void shutdown() throws Exception {
        shutdown(Duration.ZERO);
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

    public KRaftMetadataCache metadataCache() {
        return Stand.in(KRaftMetadataCache.class, new Topics());
    }

    public KafkaApis dataPlaneRequestProcessor() {
        return Stand.in(KafkaApis.class, this);
    }

    public SharedServer sharedServer() {
        return Stand.in(SharedServer.class, this);
    }

    /** Null: there is nothing that it could lag behind. */
    public MetadataLoader loader() throws Exception {
        Long offset = cluster.metadataOffset(id);
        return offset == null ? null : Stand.in(MetadataLoader.class, new Loader(offset));
    }

    /** Of the metadata that it follows. */
    public static final class Loader {
        private final long offset;

        Loader(long offset) {
            this.offset = offset;
        }

        public long lastAppliedOffset() {
            return offset;
        }
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

        public boolean hasAliveBroker(int broker) throws Exception {
            return cluster.ours().describeCluster().nodes().get().stream().anyMatch(each -> told(each.id()) == broker);
        }

        public Optional<Node> getPartitionLeaderEndpoint(String topic, int partition, ListenerName listener)
                throws Exception {
            return cluster.described(topic).filter(each -> each.partitions().size() > partition)
                    .map(each -> each.partitions().get(partition).leader())
                    .map(each -> new Node(told(each.id()), each.host(), each.port()));
        }

        /** What is set for a topic itself. */
        public Properties topicConfig(String topic) throws Exception {
            ConfigResource asked = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Properties found = new Properties();
            cluster.ours().describeConfigs(List.of(asked)).all().get().get(asked).entries().stream()
                    .filter(each -> each.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG)
                    .forEach(each -> found.put(each.name(), each.value()));
            return found;
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
