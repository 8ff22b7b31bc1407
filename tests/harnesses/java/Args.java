import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** What requests carry. */
final class Args {
    private Args() {}

    /** Text, or null. */
    static String text(JsonObject args, String name) {
        JsonElement value = args.get(name);
        return value == null || value.isJsonNull() ? null : value.getAsString();
    }

    static int number(JsonObject args, String name) {
        return args.get(name).getAsInt();
    }

    /** Base64, or null. */
    static byte[] bytes(JsonObject args, String name) {
        String value = text(args, name);
        return value == null ? null : Base64.getDecoder().decode(value);
    }

    static String encoded(byte[] value) {
        return value == null ? null : Base64.getEncoder().encodeToString(value);
    }

    static List<String> texts(JsonObject args, String name) {
        List<String> found = new ArrayList<>();
        args.getAsJsonArray(name).forEach(each -> found.add(each.getAsString()));
        return found;
    }

    /** Where the brokers are, and the settings of security as a user of Java has them, if any. */
    static Properties reaching(JsonObject args) {
        Properties config = new Properties();
        config.setProperty("bootstrap.servers", text(args, "bootstrap"));
        if (args.has("access")) {
            args.getAsJsonObject("access").entrySet()
                    .forEach(each -> setting(config, each.getKey(), each.getValue().getAsString()));
        }
        return config;
    }

    /** What is no setting of a client is one of the whole process: from which files tokens may come, since 3.9.1. */
    private static void setting(Properties config, String name, String value) {
        if (name.startsWith("org.apache.kafka.")) {
            System.setProperty(name, value);
        } else {
            config.setProperty(name, value);
        }
    }

    static TopicPartition partition(JsonObject args) {
        return new TopicPartition(text(args, "topic"), number(args, "partition"));
    }

    /** [[topic, partition, offset], ...]. */
    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonObject args) {
        Map<TopicPartition, OffsetAndMetadata> found = new LinkedHashMap<>();
        for (JsonElement each : args.getAsJsonArray("offsets")) {
            JsonArray row = each.getAsJsonArray();
            TopicPartition partition = new TopicPartition(row.get(0).getAsString(), row.get(1).getAsInt());
            found.put(partition, new OffsetAndMetadata(row.get(2).getAsLong()));
        }
        return found;
    }
}
