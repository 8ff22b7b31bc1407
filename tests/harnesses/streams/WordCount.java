import java.io.IOException;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words of a topic exactly once: through a topic that spreads them, into a store that a changelog backs, and
 * to a target that hears of each new count. It takes its time for each line, so that it can be stopped in the middle.
 *
 *     WordCount APPLICATION BOOTSTRAP SOURCE TARGET STATE_FOLDER PAUSE_MS [SETTING=VALUE...]
 *
 * A setting without a value is left out.
 *
 * It prints each state that it comes to. The end of stdin ends it at once; a line closes it first, as an application is
 * stopped for a while.
 */
public final class WordCount {
    public static void main(String[] arguments) throws IOException {
        long pauseMs = Long.parseLong(arguments[5]);
        Properties config = new Properties();
        config.setProperty(StreamsConfig.APPLICATION_ID_CONFIG, arguments[0]);
        config.setProperty(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[1]);
        config.setProperty(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        config.setProperty(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, "exactly_once_v2");
        config.setProperty(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "1000");
        config.setProperty("producer.linger.ms", "0"); // most of a transaction is written when it is killed
        config.setProperty("statestore.cache.max.bytes", "0"); // each count is heard of
        config.setProperty("producer.transaction.timeout.ms", "5000");
        config.setProperty("session.timeout.ms", "6000"); // who was killed is missed soon
        config.setProperty("auto.offset.reset", "earliest");
        for (String each : Arrays.asList(arguments).subList(6, arguments.length)) {
            String[] setting = each.split("=", 2);
            config.remove(setting[0]);
            if (!setting[1].isEmpty()) {
                config.setProperty(setting[0], setting[1]);
            }
        }

        Serde<String> text = Serdes.String();
        StreamsBuilder topology = new StreamsBuilder();
        topology.stream(arguments[2], Consumed.with(text, text))
                .peek((key, line) -> sleep(pauseMs))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(text, text))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")).withKeySerde(text))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(arguments[3], Produced.with(text, text));

        KafkaStreams streams = new KafkaStreams(topology.build(), config);
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.start();
        if (System.in.read() >= 0) {
            streams.close();
        }
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
