import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies partition 0 of a topic exactly once, with what the client had in 0.11: arguments are the bootstrap address, source, target,
 * group, transactional id, and the sizes of the transactions. Each transaction is aborted first, read again, and committed.
 */
final class OldCopier {
    private static final long POLL_MS = 200;

    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TopicPartition source;
    private final String target;
    private final String group;

    private OldCopier(String[] args) {
        source = new TopicPartition(args[1], 0);
        target = args[2];
        group = args[3];
        Properties config = new Properties();
        config.setProperty("bootstrap.servers", args[0]);
        config.setProperty("transactional.id", args[4]);
        producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
        Properties reading = new Properties();
        reading.setProperty("bootstrap.servers", args[0]);
        reading.setProperty("group.id", group);
        reading.setProperty("enable.auto.commit", "false");
        reading.setProperty("auto.offset.reset", "earliest");
        reading.setProperty("isolation.level", "read_committed");
        consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] args) {
        OldCopier copier = new OldCopier(args);
        copier.producer.initTransactions();
        copier.consumer.assign(Collections.singletonList(copier.source));
        for (int at = 5; at < args.length; at++) {
            int size = Integer.parseInt(args[at]);
            copier.copy(size, false);
            copier.copy(size, true);
            System.out.println("committed " + size);
        }
        copier.producer.close();
        copier.consumer.close();
    }

    /** One transaction of so many records, from where the group has come on. */
    private void copy(int size, boolean commits) {
        OffsetAndMetadata committed = consumer.committed(source);
        consumer.seek(source, committed == null ? 0 : committed.offset());
        producer.beginTransaction();
        List<ConsumerRecord<byte[], byte[]>> read = read(size);
        for (ConsumerRecord<byte[], byte[]> record : read) {
            producer.send(new ProducerRecord<>(target, 0, record.key(), record.value()));
        }
        long next = read.get(size - 1).offset() + 1;
        producer.sendOffsetsToTransaction(Collections.singletonMap(source, new OffsetAndMetadata(next)), group);
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.flush();
            producer.abortTransaction();
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> read(int size) {
        List<ConsumerRecord<byte[], byte[]>> read = new ArrayList<>();
        while (read.size() < size) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL_MS)) {
                if (read.size() < size) {
                    read.add(record);
                }
            }
        }
        return read;
    }
}
