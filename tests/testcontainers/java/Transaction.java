import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** A committed transaction in brokers that the three Kafka classes of Testcontainers for Java start: java Transaction IMAGE. */
public final class Transaction {
    private Transaction() {}

    public static void main(String[] args) {
        DockerImageName image = DockerImageName.parse(args[0]);
        DockerImageName apache = image.asCompatibleSubstituteFor("apache/kafka");
        DockerImageName confluent = image.asCompatibleSubstituteFor("confluentinc/cp-kafka");
        try (KafkaContainer container = new KafkaContainer(apache)) {
            container.start();
            commitAndRead("KafkaContainer", container.getBootstrapServers());
        }
        try (ConfluentKafkaContainer container = new ConfluentKafkaContainer(confluent)) {
            container.start();
            commitAndRead("ConfluentKafkaContainer", container.getBootstrapServers());
        }
        oldClass("the old class with ZooKeeper", confluent, false);
        oldClass("the old class with KRaft", confluent, true);
    }

    @SuppressWarnings("deprecation")
    private static void oldClass(String name, DockerImageName image, boolean kraft) {
        try (org.testcontainers.containers.KafkaContainer container = new org.testcontainers.containers.KafkaContainer(image)) {
            if (kraft) {
                container.withKraft();
            }
            container.start();
            commitAndRead(name, container.getBootstrapServers());
        }
    }

    private static void commitAndRead(String name, String address) {
        Map<String, Object> ours = Map.of("bootstrap.servers", address, "transactional.id", "t");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(ours, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("orders", "committed"));
            producer.commitTransaction();
        }
        Map<String, Object> theirs = Map.of(
                "bootstrap.servers", address, "group.id", "g", "auto.offset.reset", "earliest", "isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(theirs, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            ConsumerRecords<String, String> records = ConsumerRecords.empty();
            for (int tries = 0; records.isEmpty() && tries < 60; tries++) {
                records = consumer.poll(Duration.ofMillis(500));
            }
            if (records.count() != 1 || !records.iterator().next().value().equals("committed")) {
                throw new IllegalStateException(name + ": read " + records.count() + " records");
            }
        }
        System.out.println(name + ": committed and read");
    }
}
