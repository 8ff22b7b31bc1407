// A committed transaction in a broker that the Kafka module of Testcontainers for Node starts: node transaction.js IMAGE.
// A tag below 8.0.0 has the module go by ZooKeeper, and one from there on by KRaft.

const { KafkaContainer } = require("@testcontainers/kafka");
const { Kafka, logLevel } = require("kafkajs");

async function commitAndRead(address) {
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR });
  const producer = kafka.producer({ transactionalId: "t", idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const transaction = await producer.transaction();
  await transaction.send({ topic: "orders", messages: [{ value: "committed" }] });
  await transaction.commit();
  await producer.disconnect();
  // kafkajs reads committed records alone unless it is told otherwise.
  const consumer = kafka.consumer({ groupId: "g" });
  await consumer.connect();
  await consumer.subscribe({ topic: "orders", fromBeginning: true });
  const value = await new Promise((resolve) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) });
  });
  await consumer.disconnect();
  if (value !== "committed") throw new Error(`read ${value}`);
}

async function main(image) {
  const container = await new KafkaContainer(image).start();
  await commitAndRead(`${container.getHost()}:${container.getMappedPort(9093)}`);
  await container.stop();
  console.log(`${image}: committed and read`);
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
