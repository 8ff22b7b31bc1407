package org.apache.kafka.common.test.junit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.opentest4j.TestAbortedException;

/**
 * What a test of Apache Kafka's is given as its cluster: an Eosin in a process of its own, with the test's settings.
 * Where the test wants several brokers it is a lab's with as many nodes in front of it; with -Deosin.joined=true as many
 * Eosins as it wants have joined a controller of Apache Kafka's. A test that wants what only a broker in this JVM has is
 * left out, with the name of that.
 */
public final class EosinCluster {
    static final String AGAIN = "as with controllers of their own";
    private static final int CONTROLLER = 3000; // as Apache Kafka's own class counts them
    private static final String TRANSACTIONS = "transaction.version"; // which goes up only

    private final ClusterConfig config;
    private final Type type;
    private final Path folder;
    private final Map<String, String> ofControllers;
    private EosinProcess process;
    private JoinedBrokers joined;
    private List<String> addresses = List.of();
    private List<Node> nodes = List.of();
    private final Set<Integer> down = new HashSet<>();
    private String control;
    private Admin admin;
    private boolean everStarted;
    private boolean stopped;

    EosinCluster(ClusterConfig config, Type type) {
        this(config, type, config.serverProperties());
    }

    /** `ofControllers` are the settings of the controllers, if there are any. */
    EosinCluster(ClusterConfig config, Type type, Map<String, String> ofControllers) {
        this.config = config;
        this.type = type;
        this.ofControllers = ofControllers;
        try {
            this.folder = Files.createTempDirectory("cluster-");
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    /** This cluster as tests see it: its public methods, and the interface's own for all others. */
    ClusterInstance instance() {
        return Stand.in(ClusterInstance.class, this);
    }

    // --- what the cluster is

    /** Whether each of its brokers is an Eosin of its own, and none is the controller. */
    boolean isJoined() {
        return Boolean.getBoolean("eosin.joined") && config.brokerSecurityProtocol() == SecurityProtocol.PLAINTEXT;
    }

    public Type type() {
        return type;
    }

    public ClusterConfig config() {
        return config;
    }

    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    public String bootstrapServers() {
        return String.join(",", addresses);
    }

    public List<Integer> brokerBoundPorts() {
        return addresses.stream().map(each -> Integer.valueOf(each.substring(each.lastIndexOf(':') + 1))).toList();
    }

    public Map<Integer, KafkaBroker> brokers() throws Exception {
        Map<Integer, KafkaBroker> brokers = new TreeMap<>();
        for (Node each : nodes()) {
            brokers.put(each.id(), Stand.in(BrokerServer.class, new OutsideBroker(this, each.id())));
        }
        return brokers;
    }

    public Map<Integer, ControllerServer> controllers() {
        return Map.of(CONTROLLER, controller());
    }

    public Set<Integer> controllerIds() {
        return Set.of(CONTROLLER);
    }

    /** The controller of joined brokers, or else one of which only that is known that all brokers have caught up. */
    ControllerServer controller() {
        return joined != null ? joined.controller() : Stand.in(ControllerServer.class, new OutsideController(this));
    }

    /** How far a broker follows the controller's metadata; null where there is no controller to lag behind. */
    Long metadataOffset(int id) throws Exception {
        if (joined == null) {
            return null;
        }
        return ours().describeMetadataQuorum().quorumInfo().get().observers().stream()
                .filter(each -> each.replicaId() == id).map(each -> each.logEndOffset() - 1).findAny().orElse(-1L);
    }

    public Set<Integer> brokerIds() throws Exception {
        return nodes().stream().map(Node::id).collect(Collectors.toSet());
    }

    /** All brokers, those that are down, too: they are asked for once, while everything is up. */
    List<Node> nodes() throws Exception {
        if (nodes.size() < config.numBrokers()) {
            nodes = List.copyOf(ours().describeCluster().nodes().get());
        }
        return nodes;
    }

    /** Where a broker keeps its logs; all nodes of a lab keep them in memory. */
    Path logs(int id) {
        return isJoined() ? JoinedBrokers.logs(folder, id) : folder.resolve("data");
    }

    public String clusterId() throws Exception {
        return ours().describeCluster().clusterId().get();
    }

    /** A client for what this class wants to know itself. */
    Admin ours() {
        if (admin == null) {
            admin = instance().admin();
        }
        return admin;
    }

    public Set<GroupProtocol> supportedGroupProtocols() {
        return config.features().entrySet().stream()
                .anyMatch(each -> each.getKey().featureName().equals("group.version") && each.getValue() == 0)
                ? Set.of(GroupProtocol.CLASSIC)
                : Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
    }

    public Map<String, Object> setClientSslConfig(Map<String, Object> settings) {
        return settings;
    }

    public Optional<?> firstFatalException() {
        return Optional.empty();
    }

    public Optional<?> firstNonFatalException() {
        return Optional.empty();
    }

    public List<?> authorizers() {
        return List.of(); // whoever is told that an ACL is there can rely on it: nothing is to be waited for
    }

    // --- its life

    public boolean started() {
        return everStarted;
    }

    public boolean stopped() {
        return stopped;
    }

    public void start() throws Exception {
        if (everStarted) {
            return;
        }
        if (config.serverProperties().containsKey("principal.builder.class")) {
            throw new TestAbortedException("it brings a broker's own plug-in along: principal.builder.class");
        }
        if (config.brokerSecurityProtocol() == SecurityProtocol.SSL
                || config.brokerSecurityProtocol() == SecurityProtocol.SASL_SSL) {
            throw new TestAbortedException("it makes certificates for brokers in its own process");
        }
        if (!config.perServerOverrideProperties().isEmpty() && !isJoined()) {
            throw new TestAbortedException("its brokers differ in their settings");
        }
        everStarted = true;
        try {
            if (isJoined()) {
                joined = new JoinedBrokers(config, folder, settings(), ofControllers);
                joined.start();
                addresses = joined.addresses();
            } else {
                launch();
                finalizeFeatures();
            }
        } catch (Exception failed) {
            stop(); // JUnit does not, for a test that has not begun
            throw failed;
        }
    }

    public void stop() throws Exception {
        stopped = true;
        if (admin != null) {
            admin.close(Duration.ZERO);
        }
        if (joined != null) {
            joined.stop();
        }
        if (process != null) {
            process.kill(); // nobody reads what it has written
        }
        try (var files = Files.walk(folder)) {
            files.sorted((one, other) -> other.compareTo(one)).forEach(each -> each.toFile().delete());
        }
    }

    boolean isDown(int id) {
        return down.contains(id);
    }

    public void shutdownBroker(int id) throws Exception {
        down.add(id);
        if (joined != null) {
            joined.shutdown(id);
        } else if (control != null) {
            tellNode(id, "down");
        } else {
            end();
        }
    }

    public void startBroker(int id) throws Exception {
        down.remove(id);
        if (joined != null) {
            joined.start(id);
        } else if (control != null) {
            tellNode(id, "up");
        } else {
            launch();
        }
    }

    private void launch() throws Exception {
        process = new EosinProcess(folder, config.numBrokers() > 1 ? lab() : serve());
        String said = process.ready();
        if (config.numBrokers() > 1) {
            List<String> lines = said.lines().toList();
            addresses = List.of(lines.get(0).split(","));
            control = lines.get(1);
        } else {
            addresses = List.of(EosinProcess.address(said));
        }
    }

    private List<String> serve() throws IOException {
        Map<String, String> settings = settings();
        settings.put("node.id", "0");
        String file = settings.entrySet().stream()
                .map(each -> each.getKey() + "=" + each.getValue() + "\n").collect(Collectors.joining());
        Path properties = Files.writeString(folder.resolve("broker.properties"), file);
        String address = addresses.isEmpty() ? "127.0.0.1:0" : addresses.get(0); // a restart takes the same port again
        return List.of("serve", "--config", properties.toString(), "--data-dir", logs(0).toString(),
                "--listen", config.brokerListenerName().value() + "=" + address);
    }

    private List<String> lab() {
        List<String> command = new ArrayList<>(List.of("lab", "--behaviour", "eosin", "--disk", "memory", "--control",
                "0", "--nodes", String.valueOf(config.numBrokers()),
                EosinProcess.READY_FILE, folder.resolve(EosinProcess.READY).toString()));
        settings().forEach((name, value) -> command.addAll(List.of("--set", name + "=" + value)));
        return command;
    }

    private Map<String, String> settings() {
        Map<String, String> settings = new TreeMap<>(config.serverProperties());
        settings.keySet().removeIf(each -> // no settings of brokers, and one test has a sentence for a name
                each.startsWith("log.unclean.") || each.equals("file.delete.delay.ms") || each.contains(" "));
        config.features().forEach((feature, level) -> {
            if (feature.featureName().equals(TRANSACTIONS)) {
                settings.put("eosin.transaction.version", String.valueOf(level));
            }
        });
        String protocol = config.brokerSecurityProtocol().name;
        if (config.numBrokers() == 1 && !protocol.equals(config.brokerListenerName().value())) {
            settings.put("listener.security.protocol.map", config.brokerListenerName().value() + ":" + protocol);
        }
        if (config.numBrokers() > 1 && config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
            settings.put("listeners", protocol + "://127.0.0.1:0"); // the pattern for each node of a lab
        }
        if (config.brokerSecurityProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
            settings.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
            settings.putIfAbsent("sasl.jaas.config", String.format(
                    "org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=\"%s\" user_%s=\"%s\";",
                    JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
                    JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD));
            settings.putIfAbsent("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            settings.putIfAbsent("allow.everyone.if.no.acl.found", "false");
            settings.putIfAbsent("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
        }
        return settings;
    }

    private void finalizeFeatures() throws Exception {
        if (config.features().isEmpty()) {
            return;
        }
        try {
            var known = ours().describeFeatures().featureMetadata().get().finalizedFeatures();
            Map<String, FeatureUpdate> updates = new TreeMap<>();
            config.features().forEach((feature, level) -> {
                short now = known.containsKey(feature.featureName())
                        ? known.get(feature.featureName()).maxVersionLevel() : 0;
                if (now != level && !feature.featureName().equals(TRANSACTIONS)) {
                    updates.put(feature.featureName(), new FeatureUpdate(level, level > now
                            ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE));
                }
            });
            if (!updates.isEmpty()) {
                ours().updateFeatures(updates, new UpdateFeaturesOptions()).all().get();
            }
        } catch (ExecutionException refused) {
            throw new TestAbortedException("Eosin does not take its features: " + refused.getCause().getMessage());
        }
    }

    private void end() throws InterruptedException {
        if (process != null) {
            process.end();
            process = null;
        }
    }

    private void tellNode(int id, String what) throws IOException {
        var request = (HttpURLConnection) URI.create(control + "/nodes/" + id + "/" + what).toURL().openConnection();
        request.setRequestMethod("POST");
        request.setRequestProperty("Content-Type", "application/json");
        request.setRequestProperty("Connection", "close");
        request.setDoOutput(true);
        request.getOutputStream().write("{}".getBytes());
        if (request.getResponseCode() >= 300) {
            throw new IOException(request.getURL() + ": " + new String(request.getErrorStream().readAllBytes()));
        }
    }

    // --- what it waits for

    public void waitForReadyBrokers() { }

    public void ensureConsistentMetadata() { }

    public void waitTopicCreation(String topic, int partitions) throws Exception {
        EosinProcess.waitFor(topic + " with " + partitions + " partitions", () -> {
            Optional<TopicDescription> found = described(topic);
            return found.filter(each -> each.partitions().size() == partitions)
                    .filter(each -> each.partitions().stream().allMatch(one -> one.leader() != null)).orElse(null);
        });
    }

    public void waitTopicDeletion(String topic) throws Exception {
        EosinProcess.waitFor("the end of " + topic, () -> described(topic).isPresent() ? null : topic);
    }

    Optional<TopicDescription> described(String topic) throws Exception {
        try {
            return Optional.of(ours().describeTopics(List.of(topic)).topicNameValues().get(topic).get());
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw failed;
        }
    }
}
