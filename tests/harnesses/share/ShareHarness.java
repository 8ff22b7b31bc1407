import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Java's share consumer behind lines of JSON: requests on stdin, answers on stdout, one object per line, as
 * tests/support/real_clients/harness.py tells. Each handle is one member, with a thread of its own.
 */
public final class ShareHarness {
    private static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    private final PrintStream answers;
    private final Map<String, KafkaShareConsumer<String, String>> members = new ConcurrentHashMap<>();
    private final Map<String, Map<String, ConsumerRecord<String, String>>> delivered = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

    private ShareHarness(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever else prints must not break a line
        ShareHarness harness = new ShareHarness(answers);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonObject request = JsonParser.parseString(line).getAsJsonObject();
            String name = request.get("handle").getAsString();
            harness.threads
                    .computeIfAbsent(name, each -> Executors.newSingleThreadExecutor())
                    .execute(() -> harness.answer(name, request));
        }
        Runtime.getRuntime().halt(0); // members that are still open vanish without a word
    }

    private void answer(String name, JsonObject request) {
        JsonObject answer = new JsonObject();
        answer.add("id", request.get("id"));
        try {
            String op = request.get("op").getAsString();
            answer.add("result", GSON.toJsonTree(serve(name, op, request.getAsJsonObject("args"))));
        } catch (Throwable failure) {
            JsonObject error = new JsonObject();
            error.addProperty("kind", "refused");
            error.addProperty("name", failure instanceof ApiException ? nameOf(failure) : failure.getClass().getName());
            error.add("code", null);
            error.addProperty("message", String.valueOf(failure.getMessage()));
            answer.add("error", error);
        }
        synchronized (answers) {
            answers.println(GSON.toJson(answer));
        }
    }

    private Object serve(String name, String op, JsonObject args) {
        KafkaShareConsumer<String, String> member = members.get(name);
        switch (op) {
            case "member.open":
                members.put(name, opened(args));
                return null;
            case "member.poll":
                return polled(name, member.poll(Duration.ofMillis(args.get("timeout_ms").getAsInt())));
            case "member.acknowledge":
                member.acknowledge(
                        delivered.get(name).get(place(args.get("partition").getAsInt(), args.get("offset").getAsLong())),
                        AcknowledgeType.valueOf(args.get("type").getAsString()));
                return null;
            case "member.commit":
                return outcomes(member.commitSync());
            case "member.close":
                members.remove(name).close(Duration.ofSeconds(10));
                threads.remove(name).shutdown();
                return null;
            default:
                throw new IllegalArgumentException("no such operation: " + op);
        }
    }

    private static KafkaShareConsumer<String, String> opened(JsonObject args) {
        Properties config = new Properties();
        args.getAsJsonObject("config").entrySet()
                .forEach(each -> config.setProperty(each.getKey(), each.getValue().getAsString()));
        KafkaShareConsumer<String, String> made =
                new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer());
        List<String> topics = new ArrayList<>();
        args.getAsJsonArray("topics").forEach(each -> topics.add(each.getAsString()));
        made.subscribe(topics);
        return made;
    }

    /** The records of a poll, which stay here to be acknowledged: a member reads one topic. */
    private List<Object[]> polled(String name, ConsumerRecords<String, String> records) {
        List<Object[]> found = new ArrayList<>();
        Map<String, ConsumerRecord<String, String>> known =
                delivered.computeIfAbsent(name, each -> new ConcurrentHashMap<>());
        for (ConsumerRecord<String, String> each : records) {
            known.put(place(each.partition(), each.offset()), each);
            short count = each.deliveryCount().orElse((short) 0);
            found.add(new Object[] {each.topic(), each.partition(), each.offset(), each.value(), count});
        }
        return found;
    }

    private static String place(int partition, long offset) {
        return partition + "@" + offset;
    }

    /** By partition, the name of the error, or null. */
    private static Map<String, String> outcomes(Map<TopicIdPartition, Optional<KafkaException>> committed) {
        Map<String, String> found = new TreeMap<>();
        committed.forEach((partition, error) ->
                found.put(partition.topicPartition().toString(), error.map(ShareHarness::nameOf).orElse(null)));
        return found;
    }

    private static String nameOf(Throwable failure) {
        return Errors.forException(failure).name();
    }
}
