package org.apache.kafka.common.test.junit;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.common.Feature;
import org.opentest4j.TestAbortedException;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The brokers of a test in Scala, which makes them one by one and starts them: an Eosin, which all of them are, or one
 * each. Such tests count their brokers from 0, and the nodes of a lab have the numbers from 1.
 */
public final class HarnessCluster {
    /** What says where a broker is and what it is called, and Eosin is told by other means. */
    private static final Set<String> PLACES = Set.of(
            "node.id", "broker.id", "log.dir", "log.dirs", "metadata.log.dir", "process.roles", "listeners",
            "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name",
            "security.inter.broker.protocol", "server.max.startup.time.ms");
    private static final List<String> OF_KAFKA = List.of("controller.", "unstable.", "metadata.", "raft.");

    private final EosinCluster cluster;
    private final int first;

    public HarnessCluster(List<KafkaConfig> brokers, boolean secondTransactions, Properties ofControllers) {
        Map<String, String> settings = settings(brokers.get(0).originals());
        Map<Integer, Map<String, String>> differing = new HashMap<>();
        for (KafkaConfig each : brokers) {
            Map<String, String> its = settings(each.originals());
            if (!its.equals(settings)) {
                differing.put(each.brokerId(), its);
            }
            if (CollectionConverters.asJava(each.effectiveAdvertisedBrokerListeners()).stream()
                    .anyMatch(listener -> listener.securityProtocol() != SecurityProtocol.PLAINTEXT)) {
                throw new TestAbortedException("it makes the users or certificates of its listeners itself");
            }
        }
        settings.putIfAbsent("transaction.state.log.num.partitions", "50"); // Apache Kafka's default, not a lab's
        cluster = new EosinCluster(ClusterConfig.defaultBuilder()
                .setTypes(Set.of(Type.KRAFT))
                .setBrokers(brokers.size())
                .setServerProperties(settings)
                .setPerServerProperties(differing)
                .setFeatures(Map.of(Feature.TRANSACTION_VERSION, (short) (secondTransactions ? 2 : 1)))
                .build(), Type.KRAFT, settings(ofControllers));
        first = brokers.size() > 1 && !cluster.isJoined() ? 1 : 0;
    }

    public ControllerServer controller() {
        return cluster.controller();
    }

    public KafkaBroker broker(KafkaConfig config) {
        return Stand.in(BrokerServer.class, new Broker(config));
    }

    public void stop() throws Exception {
        cluster.stop();
    }

    private static Map<String, String> settings(Map<?, ?> given) {
        Map<String, String> found = new HashMap<>();
        given.forEach((key, value) -> {
            String name = String.valueOf(key);
            if (!PLACES.contains(name) && OF_KAFKA.stream().noneMatch(name::startsWith)) {
                found.put(name, String.valueOf(value));
            }
        });
        return found;
    }

    /** One of them. */
    public final class Broker extends OutsideBroker {
        private final KafkaConfig config;
        private boolean everStarted;
        private boolean up;

        Broker(KafkaConfig config) {
            super(HarnessCluster.this.cluster, config.brokerId() + first);
            Map<String, Object> settings = new HashMap<>(config.originals());
            settings.put("log.dirs", cluster.logs(config.brokerId()).toString());
            if (!cluster.isJoined()) { // all nodes have what one has
                settings.put("offsets.topic.replication.factor", String.valueOf(cluster.config().numBrokers()));
            }
            this.config = new KafkaConfig(settings, false);
        }

        @Override
        public KafkaConfig config() {
            return config;
        }

        @Override
        public void startup() throws Exception {
            if (everStarted) {
                super.startup();
            } else {
                cluster.start(); // all of them: the first one that is started does it
            }
            everStarted = true;
            up = true;
        }

        @Override
        public void shutdown(Duration longest) throws Exception {
            if (up) {
                super.shutdown(longest);
            }
            up = false;
        }

        @Override
        public boolean isShutdown() {
            return !up;
        }

        @Override
        int told(int node) {
            return node - first;
        }
    }
}
