import com.google.gson.JsonObject;
import java.lang.reflect.InvocationTargetException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** One producer, always idempotent. */
final class ProducerHandle implements Harness.Handle {
    private final KafkaProducer<byte[], byte[]> producer;
    private final Function<String, ConsumerHandle> consumers;
    private List<Future<RecordMetadata>> sent = new ArrayList<>();

    ProducerHandle(JsonObject args, Function<String, ConsumerHandle> consumers) {
        this.consumers = consumers;
        Properties config = Args.reaching(args);
        config.setProperty("enable.idempotence", "true");
        config.setProperty("acks", "all");
        config.setProperty("linger.ms", "2");
        config.setProperty("buffer.memory", "8388608");
        config.setProperty("max.block.ms", "30000");
        config.setProperty("transaction.timeout.ms", Args.text(args, "transaction_timeout_ms"));
        String transactionalId = Args.text(args, "transactional_id");
        if (transactionalId != null) {
            config.setProperty("transactional.id", transactionalId);
        }
        String compression = Args.text(args, "compression");
        if (compression != null) {
            config.setProperty("compression.type", compression);
        }
        producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    public Object call(String op, JsonObject args) throws Exception {
        switch (op) {
            case "init":
                producer.initTransactions();
                return null;
            case "begin":
                producer.beginTransaction();
                return null;
            case "send":
                sent.add(producer.send(record(args)));
                return null;
            case "flush":
                flush();
                return null;
            case "send_offsets":
                sendOffsets(Args.offsets(args), consumers.apply(Args.text(args, "consumer")));
                return null;
            case "commit":
                producer.commitTransaction();
                sent.clear();
                return null;
            case "abort":
                producer.abortTransaction();
                sent.clear();
                return null;
            case "close":
                producer.close(Duration.ZERO); // whoever closes has flushed what it still cares about
                return null;
            default:
                throw new IllegalArgumentException("a producer cannot " + op);
        }
    }

    private static ProducerRecord<byte[], byte[]> record(JsonObject args) {
        int partition = Args.number(args, "partition");
        return new ProducerRecord<>(
                Args.text(args, "topic"), partition, Args.bytes(args, "key"), Args.bytes(args, "value"));
    }

    private void flush() throws Exception {
        List<Future<RecordMetadata>> records = sent;
        sent = new ArrayList<>();
        producer.flush();
        for (Future<RecordMetadata> record : records) {
            record.get();
        }
    }

    private void sendOffsets(Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerHandle reader) throws Exception {
        try {
            producer.sendOffsetsToTransaction(offsets, reader.metadata());
        } catch (NoSuchMethodError below25) {
            sendOffsetsOfGroup(offsets, reader.group);
        }
    }

    /** As it was before 2.5, and is no more since 4.0. */
    private void sendOffsetsOfGroup(Map<TopicPartition, OffsetAndMetadata> offsets, String group) throws Exception {
        try {
            KafkaProducer.class
                    .getMethod("sendOffsetsToTransaction", Map.class, String.class)
                    .invoke(producer, offsets, group);
        } catch (InvocationTargetException thrown) {
            throw (Exception) thrown.getCause();
        }
    }
}
