package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type producerArgs struct {
	access
	TransactionalID      *string `json:"transactional_id"`
	TransactionTimeoutMs int64   `json:"transaction_timeout_ms"`
	Compression          *string `json:"compression"`
}

type sendArgs struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`
}

var codecs = map[string]kgo.CompressionCodec{
	"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

type producer struct {
	client         *kgo.Client
	transactional  bool
	secondProtocol bool
	sent           sent
}

// sent remembers the first record that was refused since the last look at it.
type sent struct {
	guard  sync.Mutex
	failed error
}

func (s *sent) promise(_ *kgo.Record, err error) {
	s.guard.Lock()
	defer s.guard.Unlock()
	if err != nil && s.failed == nil {
		s.failed = err
	}
}

func (s *sent) take() error {
	s.guard.Lock()
	defer s.guard.Unlock()
	failed := s.failed
	s.failed = nil
	return failed
}

func producing(args producerArgs) ([]kgo.Opt, error) {
	opts, err := args.opts()
	if err != nil {
		return nil, err
	}
	opts = append(
		opts,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(2*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if args.Compression != nil {
		opts = append(opts, kgo.ProducerBatchCompression(codecs[*args.Compression]))
	}
	if args.TransactionalID != nil {
		timeout := time.Duration(args.TransactionTimeoutMs) * time.Millisecond
		opts = append(opts, kgo.TransactionalID(*args.TransactionalID), kgo.TransactionTimeout(timeout))
	}
	return opts, nil
}

func openProducer(raw json.RawMessage) (handled, error) {
	args := parsed[producerArgs](raw)
	opts, err := producing(args)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	return &producer{client: client, transactional: args.TransactionalID != nil}, nil
}

func (p *producer) call(ctx context.Context, op string, args json.RawMessage) (any, error) {
	switch op {
	case "init":
		return nil, p.init(ctx)
	case "begin":
		return nil, p.client.BeginTransaction()
	case "send":
		send(p.client, parsed[sendArgs](args), p.sent.promise)
		return nil, nil
	case "flush":
		return nil, p.flush(ctx)
	case "send_offsets":
		return nil, unsupported("franz-go adds to a transaction only the offsets of a session that has read them itself")
	case "commit":
		return nil, p.commit(ctx)
	case "abort":
		return nil, p.abort(ctx)
	}
	return nil, fmt.Errorf("a producer has no %s", op)
}

func send(client interface {
	Produce(context.Context, *kgo.Record, func(*kgo.Record, error))
}, args sendArgs, promise func(*kgo.Record, error)) {
	record := &kgo.Record{Topic: args.Topic, Partition: args.Partition, Key: args.Key, Value: args.Value}
	client.Produce(context.Background(), record, promise)
}

// init asks for the producer id now; franz-go itself would with the first record.
func (p *producer) init(ctx context.Context) (err error) {
	if p.secondProtocol, err = secondProtocol(ctx, p.client); err != nil {
		return err
	}
	_, _, err = p.client.ProducerID(ctx)
	return err
}

// secondProtocol is whether transactions run under KIP-890, part 2.
func secondProtocol(ctx context.Context, client *kgo.Client) (bool, error) {
	offered, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, client)
	if err != nil {
		return false, err
	}
	for _, feature := range offered.FinalizedFeatures {
		if feature.Name == "transaction.version" {
			return feature.MaxVersionLevel >= 2, nil
		}
	}
	return false, nil
}

func (p *producer) flush(ctx context.Context) error {
	if err := p.client.Flush(ctx); err != nil {
		return err
	}
	return p.sent.take()
}

// commit does what franz-go's documentation asks of applications: no commit after a record that was refused.
func (p *producer) commit(ctx context.Context) error {
	if err := p.flush(ctx); err != nil {
		return err
	}
	return p.client.EndTransaction(ctx, kgo.TryCommit)
}

func (p *producer) abort(ctx context.Context) error {
	if err := p.client.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	p.sent.take()
	return p.client.EndTransaction(ctx, kgo.TryAbort)
}

func (p *producer) fault(err error) *fault {
	if p.transactional {
		return transactionalFault(err, p.secondProtocol)
	}
	return faultOf(err)
}

func (p *producer) close() { p.client.Close() }
