// A committed transaction in brokers that the Kafka module of Testcontainers for .NET starts: dotnet transaction.dll IMAGE.
using Confluent.Kafka;
using Testcontainers.Kafka;

var hang = TimeSpan.FromSeconds(120); // what takes longer hangs
var image = args[0];
await Start("Apache", new KafkaBuilder(image).WithVendor(KafkaVendor.ApacheSoftwareFoundation));
await Start("Confluent with ZooKeeper", new KafkaBuilder(image).WithVendor(KafkaVendor.Confluent));
await Start("Confluent with KRaft", new KafkaBuilder(image).WithVendor(KafkaVendor.Confluent).WithKRaft());

async Task Start(string way, KafkaBuilder builder)
{
    await using var container = builder.Build();
    await container.StartAsync();
    CommitAndRead(container.GetBootstrapAddress());
    Console.WriteLine($"{way}: committed and read");
}

void CommitAndRead(string address)
{
    var ours = new ProducerConfig { BootstrapServers = address, TransactionalId = "t" };
    using (var producer = new ProducerBuilder<Null, string>(ours).Build())
    {
        producer.InitTransactions(hang);
        producer.BeginTransaction();
        producer.Produce("orders", new Message<Null, string> { Value = "committed" });
        producer.CommitTransaction(hang);
    }
    var theirs = new ConsumerConfig
    {
        BootstrapServers = address,
        GroupId = "g",
        AutoOffsetReset = AutoOffsetReset.Earliest,
        IsolationLevel = IsolationLevel.ReadCommitted,
    };
    using var consumer = new ConsumerBuilder<Ignore, string>(theirs).Build();
    consumer.Subscribe("orders");
    var read = consumer.Consume(hang);
    consumer.Close();
    if (read?.Message.Value != "committed")
    {
        throw new InvalidOperationException($"read {read?.Message.Value ?? "nothing"}");
    }
}
