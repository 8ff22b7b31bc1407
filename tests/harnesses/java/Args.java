import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
