import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/**
 * Reads topics from their beginning up to an end that each job is given, and prints what is committed of them.
 *
 *     Bounded BOOTSTRAP [TOPIC END]...
 *
 * END is "latest", or a time in ms. A job that has come to its end prints "TOPIC ended".
 */
public final class Bounded {
    public static void main(String[] arguments) throws Exception {
        for (int at = 1; at < arguments.length; at += 2) {
            String topic = arguments[at];
            String end = arguments[at + 1];
            KafkaSource<String> source = KafkaSource.<String>builder()
                    .setBootstrapServers(arguments[0])
                    .setTopics(topic)
                    .setGroupId("bounded-" + topic)
                    .setProperty("isolation.level", "read_committed")
                    .setStartingOffsets(OffsetsInitializer.earliest())
                    .setBounded(
                            end.equals("latest")
                                    ? OffsetsInitializer.latest()
                                    : OffsetsInitializer.timestamp(Long.parseLong(end)))
                    .setValueOnlyDeserializer(new SimpleStringSchema())
                    .build();
            StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(1);
            CloseableIterator<String> values = flink.fromSource(source, WatermarkStrategy.noWatermarks(), "source")
                    .executeAndCollect();
            while (values.hasNext()) {
                System.out.println(topic + " " + values.next());
            }
            values.close();
            System.out.println(topic + " ended");
        }
    }
}
