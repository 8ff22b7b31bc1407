import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** One consumer. What a poll brings beyond the records asked for waits here for the next read. */
final class ConsumerHandle implements Harness.Handle, ConsumerRebalanceListener {
    private static final long LONGEST_POLL_MS = 200;

    final KafkaConsumer<byte[], byte[]> consumer;
    final String group;
    private final Deque<ConsumerRecord<byte[], byte[]>> polled = new ArrayDeque<>();
    private final List<ConsumerRecord<byte[], byte[]>> taken = new ArrayList<>();
    private ConsumerGroupMetadata remembered;

    ConsumerHandle(JsonObject args) {
        group = Args.text(args, "group");
        Properties config = Args.reaching(args);
        config.setProperty("enable.auto.commit", "false");
        config.setProperty("auto.offset.reset", "earliest");
        boolean committedOnly = args.get("committed_only").getAsBoolean();
        config.setProperty("isolation.level", committedOnly ? "read_committed" : "read_uncommitted");
        config.setProperty("fetch.max.wait.ms", Args.text(args, "max_wait_ms"));
        if (!"consumer".equals(config.getProperty("group.protocol"))) { // there they are the broker's
            config.setProperty("session.timeout.ms", "60000");
            config.setProperty("heartbeat.interval.ms", "300");
        }
        config.setProperty("default.api.timeout.ms", "30000");
        if (group != null) {
            config.setProperty("group.id", group);
        }
        String instanceId = Args.text(args, "instance_id");
        if (instanceId != null) {
            config.setProperty("group.instance.id", instanceId);
        }
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Object call(String op, JsonObject args) throws Exception {
        switch (op) {
            case "assign":
                assign(Args.offsets(args));
                return null;
            case "subscribe":
                consumer.subscribe(Args.texts(args, "topics"), this);
                return null;
            case "subscribe_pattern":
                subscribePattern(Args.text(args, "pattern"));
                return null;
            case "remember_metadata":
                remembered = consumer.groupMetadata();
                return null;
            case "read":
                return read(Args.number(args, "count"), Args.number(args, "timeout_ms"));
            case "assignment":
                return consumer.assignment().stream()
                        .map(each -> new Object[] {each.topic(), each.partition()})
                        .collect(Collectors.toList());
            case "seek":
                seek(Args.offsets(args));
                return null;
            case "commit":
                consumer.commitSync(Args.offsets(args));
                return null;
            case "committed":
                return committed(Args.partition(args));
            case "end_offset":
                return consumer.endOffsets(Collections.singleton(Args.partition(args))).values().iterator().next();
            case "close":
                // It waits for a Fetch on its way; only a member has anything to say before it goes.
                consumer.close(group == null ? Duration.ZERO : Duration.ofSeconds(10));
                return null;
            default:
                throw new IllegalArgumentException("a consumer cannot " + op);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        Predicate<ConsumerRecord<byte[], byte[]>> isGone =
                each -> partitions.contains(new TopicPartition(each.topic(), each.partition()));
        polled.removeIf(isGone);
        taken.removeIf(isGone);
    }

    /** What a producer adds offsets with: the metadata as they are, or as they were when they were to be remembered. */
    ConsumerGroupMetadata metadata() {
        return remembered == null ? consumer.groupMetadata() : remembered;
    }

    /** A regular expression that the broker matches: there are such since 4.0. */
    private void subscribePattern(String pattern) throws Exception {
        Class<?> type = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
        Object made = type.getConstructor(String.class).newInstance(pattern);
        KafkaConsumer.class
                .getMethod("subscribe", type, ConsumerRebalanceListener.class)
                .invoke(consumer, made, this);
    }

    private void assign(Map<TopicPartition, OffsetAndMetadata> starts) {
        polled.clear();
        consumer.assign(starts.keySet());
        starts.forEach((partition, start) -> consumer.seek(partition, start.offset()));
    }

    private void seek(Map<TopicPartition, OffsetAndMetadata> places) {
        polled.removeIf(each -> places.containsKey(new TopicPartition(each.topic(), each.partition())));
        places.forEach((partition, place) -> consumer.seek(partition, place.offset()));
    }

    private List<Object[]> read(int count, long timeoutMs) {
        taken.clear(); // a read may take several polls, and each may revoke partitions of the ones before
        long end = System.nanoTime() + timeoutMs * 1_000_000;
        while (true) {
            while (taken.size() < count && !polled.isEmpty()) {
                taken.add(polled.poll());
            }
            long leftMs = (end - System.nanoTime()) / 1_000_000;
            if (taken.size() == count || leftMs <= 0) {
                return taken.stream().map(ConsumerHandle::told).collect(Collectors.toList());
            }
            consumer.poll(Duration.ofMillis(Math.min(leftMs, LONGEST_POLL_MS))).forEach(polled::add);
        }
    }

    private static Object[] told(ConsumerRecord<byte[], byte[]> record) {
        String key = Args.encoded(record.key());
        String value = Args.encoded(record.value());
        return new Object[] {record.topic(), record.partition(), record.offset(), key, value};
    }

    private Long committed(TopicPartition partition) {
        OffsetAndMetadata found = consumer.committed(Collections.singleton(partition)).get(partition);
        return found == null ? null : found.offset();
    }
}
