// Copies partition 0 of a topic exactly once by way of sarama 1.24, whose producer has no transactions: as programs of its
// time did, with the requests that it can write and read. Arguments are the bootstrap address, source, target, group,
// transactional id, and the sizes of the transactions. Each transaction is aborted first, read again, and committed.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/Shopify/sarama"
)

// Between two tries after an error that passes.
const pause = 50 * time.Millisecond

type copier struct {
	client                sarama.Client
	source, target, group string
	id                    string
	producerID            int64
	epoch                 int16
	sequence              int32
	transactions, offsets *sarama.Broker
	leader                *sarama.Broker
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V1_0_0_0
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	client, err := sarama.NewClient([]string{os.Args[1]}, config)
	must(err)
	c := &copier{client: client, source: os.Args[2], target: os.Args[3], group: os.Args[4], id: os.Args[5]}
	c.transactions = c.coordinator(c.id, sarama.CoordinatorTransaction)
	c.offsets = c.coordinator(c.group, sarama.CoordinatorGroup)
	c.leader, err = client.Leader(c.target, 0)
	must(err)
	c.begin()
	for _, text := range os.Args[6:] {
		size, err := strconv.Atoi(text)
		must(err)
		c.copy(size, false)
		c.copy(size, true)
		fmt.Println("committed", size)
	}
	must(client.Close())
}

// coordinator of a key, connected.
func (c *copier) coordinator(key string, kind sarama.CoordinatorType) *sarama.Broker {
	var found *sarama.Broker
	again(func() sarama.KError {
		request := &sarama.FindCoordinatorRequest{Version: 1, CoordinatorKey: key, CoordinatorType: kind}
		response, err := c.client.Brokers()[0].FindCoordinator(request)
		if err == sarama.ErrNotConnected {
			must(c.client.Brokers()[0].Open(c.client.Config()))
			return sarama.ErrConsumerCoordinatorNotAvailable
		}
		must(err)
		found = response.Coordinator
		return response.Err
	})
	must(found.Open(c.client.Config()))
	return found
}

func (c *copier) begin() {
	again(func() sarama.KError {
		request := &sarama.InitProducerIDRequest{TransactionalID: &c.id, TransactionTimeout: time.Minute}
		response, err := c.transactions.InitProducerID(request)
		must(err)
		c.producerID, c.epoch = response.ProducerID, response.ProducerEpoch
		return response.Err
	})
}

// copy is one transaction of so many records, from where the group has come on.
func (c *copier) copy(size int, commits bool) {
	values := c.read(c.committed(), size)
	again(func() sarama.KError {
		request := &sarama.AddPartitionsToTxnRequest{
			TransactionalID: c.id, ProducerID: c.producerID, ProducerEpoch: c.epoch,
			TopicPartitions: map[string][]int32{c.target: {0}},
		}
		response, err := c.transactions.AddPartitionsToTxn(request)
		must(err)
		return response.Errors[c.target][0].Err
	})
	c.write(values)
	again(func() sarama.KError {
		request := &sarama.AddOffsetsToTxnRequest{
			TransactionalID: c.id, ProducerID: c.producerID, ProducerEpoch: c.epoch, GroupID: c.group,
		}
		response, err := c.transactions.AddOffsetsToTxn(request)
		must(err)
		return response.Err
	})
	next := values[size-1].Offset + 1
	again(func() sarama.KError {
		request := &sarama.TxnOffsetCommitRequest{
			TransactionalID: c.id, GroupID: c.group, ProducerID: c.producerID, ProducerEpoch: c.epoch,
			Topics: map[string][]*sarama.PartitionOffsetMetadata{c.source: {{Partition: 0, Offset: next}}},
		}
		response, err := c.offsets.TxnOffsetCommit(request)
		must(err)
		return response.Topics[c.source][0].Err
	})
	again(func() sarama.KError {
		request := &sarama.EndTxnRequest{
			TransactionalID: c.id, ProducerID: c.producerID, ProducerEpoch: c.epoch, TransactionResult: commits,
		}
		response, err := c.transactions.EndTxn(request)
		must(err)
		return response.Err
	})
}

func (c *copier) write(values []*sarama.ConsumerMessage) {
	batch := &sarama.RecordBatch{
		Version: 2, ProducerID: c.producerID, ProducerEpoch: c.epoch, FirstSequence: c.sequence, IsTransactional: true,
		FirstTimestamp: time.Now(), MaxTimestamp: time.Now(), LastOffsetDelta: int32(len(values) - 1),
	}
	for index, each := range values {
		batch.Records = append(batch.Records, &sarama.Record{OffsetDelta: int64(index), Value: each.Value})
	}
	c.sequence += int32(len(values))
	again(func() sarama.KError {
		request := &sarama.ProduceRequest{
			TransactionalID: &c.id, RequiredAcks: sarama.WaitForAll, Timeout: 10_000, Version: 3,
		}
		request.AddBatch(c.target, 0, batch)
		response, err := c.leader.Produce(request)
		must(err)
		return response.Blocks[c.target][0].Err
	})
}

// committed is where the group has come on.
func (c *copier) committed() int64 {
	var offset int64
	again(func() sarama.KError {
		request := &sarama.OffsetFetchRequest{Version: 1, ConsumerGroup: c.group}
		request.AddPartition(c.source, 0)
		response, err := c.offsets.FetchOffset(request)
		must(err)
		block := response.GetBlock(c.source, 0)
		offset = max(block.Offset, 0)
		return block.Err
	})
	return offset
}

func (c *copier) read(from int64, size int) []*sarama.ConsumerMessage {
	consumer, err := sarama.NewConsumerFromClient(c.client)
	must(err)
	partition, err := consumer.ConsumePartition(c.source, 0, from)
	must(err)
	var found []*sarama.ConsumerMessage
	for len(found) < size {
		found = append(found, <-partition.Messages())
	}
	must(partition.Close())
	return found
}

// again asks until the answer is no error that passes.
func again(ask func() sarama.KError) {
	for {
		switch err := ask(); err {
		case sarama.ErrNoError:
			return
		case sarama.ErrConcurrentTransactions, sarama.ErrConsumerCoordinatorNotAvailable, sarama.ErrOffsetsLoadInProgress,
			sarama.ErrNotCoordinatorForConsumer, sarama.ErrUnknownTopicOrPartition:
			time.Sleep(pause)
		default:
			must(err)
		}
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
