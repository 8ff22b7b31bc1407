package kafka.server;

import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import kafka.integration.KafkaServerTestHarness;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.junit.HarnessCluster;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.metadata.storage.Formatter;
import org.apache.kafka.server.common.MetadataVersion;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import org.opentest4j.TestAbortedException;
import scala.Option;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Stands before Apache Kafka's class of this name, from which its tests in Scala inherit: their brokers are an Eosin. */
public abstract class QuorumTestHarness implements Logging {
    private TestInfo test;
    private HarnessCluster cluster;
    private String logIdent;

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersAll();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersClassicGroupProtocolOnly();
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return QuorumTestHarness$.MODULE$.getTestGroupProtocolParametersConsumerGroupProtocolOnly();
    }

    @BeforeEach
    public void setUp(TestInfo test) {
        this.test = test;
    }

    @AfterEach
    public void tearDown() throws Exception {
        if (cluster != null) {
            cluster.stop();
            cluster = null;
        }
    }

    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threads) {
        if (cluster == null) {
            if (!(this instanceof KafkaServerTestHarness harness)) {
                throw new TestAbortedException("it makes its brokers itself");
            }
            List<KafkaConfig> all = CollectionConverters.asJava(harness.configs());
            cluster = new HarnessCluster(
                    all, TestInfoUtils.isTransactionV2Enabled(test), kraftControllerConfigs(test).head());
        }
        KafkaBroker made = cluster.broker(config);
        if (startup) {
            made.startup();
        }
        return made;
    }

    public Time createBroker$default$2() {
        return Time.SYSTEM;
    }

    public boolean createBroker$default$3() {
        return true;
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils.maybeGroupProtocolSpecified(test);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        return maybeGroupProtocolSpecified().get();
    }

    public ControllerServer controllerServer() {
        if (cluster == null) {
            throw new TestAbortedException("it asks for Apache Kafka's own objects: ControllerServer");
        }
        return cluster.controller();
    }

    public Seq<ControllerServer> controllerServers() {
        return CollectionConverters.asScala(List.<ControllerServer>of()).toSeq(); // nobody waits for them
    }

    public void shutdownKRaftController() {
        throw new TestAbortedException("it asks for Apache Kafka's own objects: ControllerServer");
    }

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    public Seq<SecurityProtocol> extraControllerSecurityProtocols() {
        return CollectionConverters.asScala(List.<SecurityProtocol>of()).toSeq();
    }

    public Seq<Properties> kraftControllerConfigs(TestInfo test) {
        return CollectionConverters.asScala(List.of(new Properties())).toSeq();
    }

    public MetadataVersion metadataVersion() {
        return MetadataVersion.latestTesting();
    }

    public void addFormatterSettings(Formatter formatter) { }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }
}
