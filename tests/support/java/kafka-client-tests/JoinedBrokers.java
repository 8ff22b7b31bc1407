package org.apache.kafka.common.test.junit;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import kafka.server.ControllerServer;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.Feature;
import org.apache.kafka.server.common.MetadataVersion;

/** Eosins with the node ids 0, 1, ... that have joined a controller of Apache Kafka's, which is in this JVM. */
final class JoinedBrokers {
    private final ClusterConfig config;
    private final Path folder;
    private final Map<String, String> settings;
    private final KafkaClusterTestKit controllers;
    private final Map<Integer, EosinProcess> running = new TreeMap<>();
    private final Map<Integer, String> addresses = new TreeMap<>();

    /** `settings` are those of each broker, `ofControllers` the controller's. */
    JoinedBrokers(ClusterConfig config, Path folder, Map<String, String> settings, Map<String, String> ofControllers)
            throws Exception {
        this.config = config;
        this.folder = folder;
        this.settings = settings;
        TestKitNodes nodes = new TestKitNodes.Builder(
                BootstrapMetadata.fromVersions(config.metadataVersion(), levels(config), "test"))
                .setNumBrokerNodes(0)
                .setNumControllerNodes(1)
                .setControllerListenerName(config.controllerListenerName())
                .build();
        KafkaClusterTestKit.Builder kit = new KafkaClusterTestKit.Builder(nodes);
        ofControllers.forEach(kit::setConfigProp);
        this.controllers = kit.build();
    }

    private static Map<String, Short> levels(ClusterConfig config) {
        Map<String, Short> levels = new TreeMap<>();
        Feature.PRODUCTION_FEATURES.forEach(each ->
                levels.put(each.featureName(), each.defaultLevel(config.metadataVersion())));
        levels.put(MetadataVersion.FEATURE_NAME, config.metadataVersion().featureLevel());
        config.features().forEach((feature, level) -> levels.put(feature.featureName(), level));
        return levels;
    }

    /** Where one of them keeps its logs, of those that begin in a folder. */
    static Path logs(Path folder, int id) {
        return folder.resolve("broker-" + id).resolve("data");
    }

    /** The addresses of all brokers, by their ids. */
    List<String> addresses() {
        return List.copyOf(addresses.values());
    }

    ControllerServer controller() {
        return controllers.controllers().values().iterator().next();
    }

    void start() throws Exception {
        controllers.format();
        controllers.startup();
        for (int id = 0; id < config.numBrokers(); id++) {
            running.put(id, launched(id));
        }
        for (int id = 0; id < config.numBrokers(); id++) {
            addresses.put(id, EosinProcess.address(running.get(id).ready()));
        }
    }

    void stop() throws Exception {
        for (EosinProcess each : running.values()) {
            each.kill();
        }
        running.clear();
        controllers.close();
    }

    void shutdown(int id) throws Exception {
        EosinProcess ended = running.remove(id);
        if (ended != null) {
            ended.end();
        }
    }

    void start(int id) throws Exception {
        EosinProcess started = launched(id);
        running.put(id, started);
        started.ready();
    }

    private EosinProcess launched(int id) throws Exception {
        String listener = config.brokerListenerName().value();
        String controller = config.controllerListenerName().value();
        Map<String, String> all = new TreeMap<>(settings);
        all.putAll(config.perServerOverrideProperties().getOrDefault(id, Map.of()));
        all.keySet().removeIf(each -> each.startsWith("eosin.transaction.")); // the controller's feature counts
        all.putAll(Map.of(
                "process.roles", "broker",
                "node.id", String.valueOf(id),
                "controller.listener.names", controller,
                "controller.quorum.bootstrap.servers", controllers.bootstrapControllers(),
                "inter.broker.listener.name", listener,
                "listener.security.protocol.map", listener + ":PLAINTEXT," + controller + ":PLAINTEXT"));
        Path home = Files.createDirectories(logs(folder, id).getParent());
        Path properties = Files.writeString(home.resolve("broker.properties"), all.entrySet().stream()
                .map(each -> each.getKey() + "=" + each.getValue() + "\n").collect(Collectors.joining()));
        return new EosinProcess(home, List.of(
                "serve", "--config", properties.toString(), "--data-dir", logs(folder, id).toString(),
                "--listen", listener + "=" + addresses.getOrDefault(id, "127.0.0.1:0"), // a restart takes its port again
                "--cluster-id", controllers.nodes().clusterId()));
    }
}
