// A committed transaction in a broker that the Kafka module of Testcontainers for Go starts: main IMAGE.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%s: committed and read\n", os.Args[1])
}

func run(ctx context.Context, image string) (err error) {
	container, err := kafka.Run(ctx, image, kafka.WithClusterID("test-cluster"))
	defer func() {
		if ended := testcontainers.TerminateContainer(container); err == nil {
			err = ended
		}
	}()
	if err != nil {
		return err
	}
	brokers, err := container.Brokers(ctx)
	if err != nil {
		return err
	}
	return commitAndRead(ctx, brokers)
}

func commitAndRead(ctx context.Context, brokers []string) error {
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.TransactionalID("t"), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		return err
	}
	if err := producer.ProduceSync(ctx, kgo.StringRecord("committed")).FirstErr(); err != nil {
		return err
	}
	if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("orders"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	records := consumer.PollFetches(ctx).Records()
	if len(records) != 1 || string(records[0].Value) != "committed" {
		return fmt.Errorf("read %d records", len(records))
	}
	return nil
}
