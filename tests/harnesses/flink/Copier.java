import java.io.File;
import java.util.Properties;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies a topic exactly once in a cluster of one process, and takes its time, so that it can be killed in the middle. It
 * goes on from the last checkpoint in its folder.
 *
 *     Copier BOOTSTRAP SOURCE TARGET FOLDER NAMING TIMEOUT_MS PAUSE_MS
 *
 * NAMING is how the sink names its transactions, INCREMENTING or POOLING. A TIMEOUT_MS of 0 leaves the transactions'
 * timeout to Flink: an hour.
 */
public final class Copier {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        int pauseMs = Integer.parseInt(arguments[6]);
        Configuration config = new Configuration();
        config.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, new File(arguments[3]).toURI().toString());
        config.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        String last = lastCheckpoint(new File(arguments[3]));
        if (last != null) {
            config.set(StateRecoveryOptions.SAVEPOINT_PATH, last);
        }
        Properties producer = new Properties();
        if (!arguments[5].equals("0")) {
            producer.setProperty("transaction.timeout.ms", arguments[5]);
        }
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(bootstrap)
                .setTopics(arguments[1])
                .setGroupId("flink-" + arguments[1])
                .setProperty("isolation.level", "read_committed")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema())
                .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(bootstrap)
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("flink-" + arguments[2])
                .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[4]))
                .setKafkaProducerConfig(producer)
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                        .setTopic(arguments[2])
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .build();
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.createLocalEnvironment(1, config);
        flink.enableCheckpointing(400);
        flink.fromSource(source, WatermarkStrategy.noWatermarks(), "source")
                .map(value -> {
                    Thread.sleep(pauseMs);
                    return value;
                })
                .sinkTo(sink);
        flink.execute("copier");
    }

    /** The newest checkpoint that is complete, as `folder/<job>/chk-<number>`; null when there is none. */
    private static String lastCheckpoint(File folder) {
        File newest = null;
        File[] jobs = folder.listFiles();
        if (jobs == null) {
            return null;
        }
        for (File job : jobs) {
            File[] checkpoints = job.listFiles((in, name) -> name.startsWith("chk-"));
            for (File each : checkpoints == null ? new File[0] : checkpoints) {
                File metadata = new File(each, "_metadata");
                if (metadata.exists()
                        && (newest == null || metadata.lastModified() > new File(newest, "_metadata").lastModified())) {
                    newest = each;
                }
            }
        }
        return newest == null ? null : newest.toURI().toString();
    }
}
