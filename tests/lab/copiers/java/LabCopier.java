import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A transactional copier of the Java client, as an application is written, for `eosin lab run`: it reads `input` as a
 * member of a group and writes each record to `output`, in transactions with its offsets.
 *
 * <p>After an error it aborts; when that is refused it builds another producer. Either way it reads on from the committed
 * offsets. A producer is made for the first records, and the position is asked for after its fence: the other way round a
 * predecessor could still move it.
 */
final class LabCopier {
    private static final int CALL_MS = 3000;
    private static final int COMMITS = 10;
    private static final long STUCK_AFTER_MS = 15_000;
    private static final long PAUSE_MS = 100;
    private static final Duration POLL = Duration.ofMillis(100);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private KafkaProducer<byte[], byte[]> producer;
    private boolean isToRewind;
    private volatile boolean isStopped;
    private volatile long aliveAt = System.nanoTime();

    private LabCopier() {
        Properties reading = common();
        reading.setProperty("group.id", "copiers");
        reading.setProperty("enable.auto.commit", "false");
        reading.setProperty("auto.offset.reset", "earliest");
        reading.setProperty("isolation.level", "read_committed");
        reading.setProperty("max.poll.records", "20");
        reading.setProperty("heartbeat.interval.ms", "200");
        reading.setProperty("fetch.max.wait.ms", "100");
        reading.setProperty("default.api.timeout.ms", String.valueOf(CALL_MS));
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(Collections.singletonList("input"));
    }

    public static void main(String[] args) {
        LabCopier copier = new LabCopier();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            copier.isStopped = true;
            try {
                main.join(CALL_MS);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        Thread watch = new Thread(copier::watch);
        watch.setDaemon(true);
        watch.start();
        copier.run();
    }

    private void run() {
        while (!isStopped) {
            aliveAt = System.nanoTime();
            try {
                copy();
            } catch (KafkaException error) {
                recover(error);
            }
        }
        consumer.close(Duration.ofMillis(CALL_MS));
        closeProducer();
    }

    /** Copies some records in one transaction. */
    private void copy() {
        if (isToRewind) {
            if (producer == null) {
                producer = newProducer(); // the fence first: offsets wait for what the last one has left open
            }
            rewind();
        }
        ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
        if (records.isEmpty()) {
            return;
        }
        if (producer == null) {
            isToRewind = true;
            producer = newProducer();
            return;
        }
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> each : records) {
            producer.send(new ProducerRecord<>("output", each.partition(), each.key(), each.value()));
            offsets.put(new TopicPartition(each.topic(), each.partition()), new OffsetAndMetadata(each.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        commit();
    }

    /** Commits: a commit that was not answered in time is asked for again. */
    private void commit() {
        for (int tries = 1; ; tries++) {
            try {
                producer.commitTransaction();
                return;
            } catch (RetriableException error) {
                if (tries == COMMITS) {
                    throw error;
                }
            }
        }
    }

    /** Goes back to the committed offsets. */
    private void rewind() {
        consumer.committed(consumer.assignment())
                .forEach((each, committed) -> consumer.seek(each, committed == null ? 0 : committed.offset()));
        isToRewind = false;
    }

    private void recover(KafkaException error) {
        System.err.println("copier: " + error);
        isToRewind = true;
        if (producer != null) {
            try {
                producer.abortTransaction();
            } catch (KafkaException | IllegalStateException refused) {
                System.err.println("copier: a new producer after " + refused);
                closeProducer();
            }
        }
        pause();
    }

    private KafkaProducer<byte[], byte[]> newProducer() {
        Properties writing = common();
        writing.setProperty("transactional.id", "copier-1");
        writing.setProperty("linger.ms", "0");
        writing.setProperty("max.block.ms", String.valueOf(CALL_MS));
        writing.setProperty("delivery.timeout.ms", String.valueOf(3 * CALL_MS));
        KafkaProducer<byte[], byte[]> made =
                new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer());
        try {
            made.initTransactions();
        } catch (KafkaException error) {
            made.close(Duration.ZERO);
            throw error;
        }
        return made;
    }

    private void closeProducer() {
        if (producer != null) {
            producer.close(Duration.ZERO);
            producer = null;
        }
    }

    /** Ends the process when it makes no progress, for its supervisor to start it again. */
    private void watch() {
        while (System.nanoTime() < aliveAt + STUCK_AFTER_MS * 1_000_000) {
            pause();
        }
        System.err.println("copier: stuck");
        Runtime.getRuntime().halt(3);
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static Properties common() {
        Properties config = new Properties();
        config.setProperty("bootstrap.servers", System.getenv("KAFKA_BOOTSTRAP_SERVERS"));
        config.setProperty("request.timeout.ms", String.valueOf(CALL_MS));
        config.setProperty("retry.backoff.ms", "20");
        config.setProperty("reconnect.backoff.ms", "10");
        config.setProperty("reconnect.backoff.max.ms", "100");
        return config;
    }
}
