import java.io.IOException;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/**
 * A Kafka Streams application that copies a topic exactly once. The first time that it meets "slow", which is copied,
 * and "slow and dropped", which is not, it takes longer than its transaction may.
 *
 *     SlowOnce APPLICATION BOOTSTRAP SOURCE TARGET STATE_FOLDER TIMEOUT_MS
 *
 * It prints each state that it comes to. The end of stdin ends it.
 */
public final class SlowOnce {
    public static void main(String[] arguments) throws IOException {
        long timeoutMs = Long.parseLong(arguments[5]);
        Properties config = new Properties();
        config.setProperty(StreamsConfig.APPLICATION_ID_CONFIG, arguments[0]);
        config.setProperty(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        config.setProperty(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        config.setProperty(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, "exactly_once_v2");
        config.setProperty(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "300");
        config.setProperty("producer.transaction.timeout.ms", arguments[5]);
        config.setProperty("auto.offset.reset", "earliest");
        config.setProperty("default.key.serde", Serdes.ByteArraySerde.class.getName());
        config.setProperty("default.value.serde", Serdes.StringSerde.class.getName());

        Set<String> met = ConcurrentHashMap.newKeySet();
        StreamsBuilder topology = new StreamsBuilder();
        topology.<byte[], String>stream(arguments[2])
                .peek((key, value) -> {
                    if (value.startsWith("slow") && met.add(value)) {
                        sleep(timeoutMs + 500);
                    }
                })
                .filter((key, value) -> !value.equals("slow and dropped"))
                .to(arguments[3]);

        KafkaStreams streams = new KafkaStreams(topology.build(), config);
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.start();
        while (System.in.read() >= 0) {}
        Runtime.getRuntime().halt(0);
    }

    private static void sleep(long timeMs) {
        try {
            Thread.sleep(timeMs);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
