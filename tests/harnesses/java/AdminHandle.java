import com.google.gson.JsonObject;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** One admin client. */
final class AdminHandle implements Harness.Handle {
    private final Admin admin;

    AdminHandle(JsonObject args) {
        Properties config = Args.reaching(args);
        config.setProperty("default.api.timeout.ms", "30000");
        admin = Admin.create(config);
    }

    @Override
    public Object call(String op, JsonObject args) throws Exception {
        switch (op) {
            case "create_topic":
                return admin.createTopics(Collections.singleton(newTopic(args))).all().get();
            case "delete_topic":
                return admin.deleteTopics(Collections.singleton(Args.text(args, "name"))).all().get();
            case "topics":
                return topics();
            case "add_partitions":
                NewPartitions more = NewPartitions.increaseTo(Args.number(args, "total"));
                return admin.createPartitions(Collections.singletonMap(Args.text(args, "topic"), more)).all().get();
            case "topic_config":
                ConfigResource topic = resource(args);
                return admin.describeConfigs(Collections.singleton(topic)).all().get().get(topic)
                        .get(Args.text(args, "name")).value();
            case "set_topic_config":
                ConfigEntry entry = new ConfigEntry(Args.text(args, "name"), Args.text(args, "value"));
                List<AlterConfigOp> set = Collections.singletonList(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                return admin.incrementalAlterConfigs(Collections.singletonMap(resource(args), set)).all().get();
            case "groups":
                return admin.listConsumerGroups().all().get().stream()
                        .map(ConsumerGroupListing::groupId).collect(Collectors.toList());
            case "delete_records":
                TopicPartition partition = Args.partition(args);
                RecordsToDelete before = RecordsToDelete.beforeOffset(Args.number(args, "before"));
                return admin.deleteRecords(Collections.singletonMap(partition, before)).all().get();
            case "delete_group":
                return admin.deleteConsumerGroups(Collections.singleton(Args.text(args, "group"))).all().get();
            case "close":
                admin.close(Duration.ZERO);
                return null;
            default:
                throw new IllegalArgumentException("an admin client cannot " + op);
        }
    }

    private static NewTopic newTopic(JsonObject args) {
        Map<String, String> configs = new HashMap<>();
        args.getAsJsonObject("configs").entrySet().forEach(each -> configs.put(each.getKey(), each.getValue().getAsString()));
        short replicas = (short) Args.number(args, "replicas");
        return new NewTopic(Args.text(args, "name"), Args.number(args, "partitions"), replicas).configs(configs);
    }

    private static ConfigResource resource(JsonObject args) {
        return new ConfigResource(ConfigResource.Type.TOPIC, Args.text(args, "topic"));
    }

    private Map<String, Integer> topics() throws Exception {
        Map<String, Integer> partitions = new HashMap<>();
        DescribeTopicsResult described = admin.describeTopics(admin.listTopics().names().get());
        all(described).get().forEach((name, topic) -> partitions.put(name, topic.partitions().size()));
        return partitions;
    }

    /** `all` until 3.9, `allTopicNames` since 3.1. */
    @SuppressWarnings("unchecked")
    private static KafkaFuture<Map<String, TopicDescription>> all(DescribeTopicsResult described) throws Exception {
        Method all;
        try {
            all = DescribeTopicsResult.class.getMethod("allTopicNames");
        } catch (NoSuchMethodException below31) {
            all = DescribeTopicsResult.class.getMethod("all");
        }
        return (KafkaFuture<Map<String, TopicDescription>>) all.invoke(described);
    }
}
