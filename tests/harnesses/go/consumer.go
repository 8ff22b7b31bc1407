package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A busy machine keeps a member silent for many seconds. Who takes over from a session that was killed waits for its end.
const (
	sessionTimeout       = 60 * time.Second
	killedSessionTimeout = 10 * time.Second
	heartbeat            = 300 * time.Millisecond
)

type consumerArgs struct {
	access
	Group         *string `json:"group"`
	InstanceID    *string `json:"instance_id"`
	CommittedOnly bool    `json:"committed_only"`
	MaxWaitMs     int64   `json:"max_wait_ms"`
}

// An offset travels as [topic, partition, offset].
type offset struct {
	topic     string
	partition int32
	at        int64
}

func (o *offset) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&o.topic, &o.partition, &o.at})
}

type offsetsArgs struct {
	Offsets []offset `json:"offsets"`
}

type topicsArgs struct {
	Topics []string `json:"topics"`
}

type patternArgs struct {
	Pattern string `json:"pattern"`
}

type partitionArgs struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
}

type readArgs struct {
	Count     int   `json:"count"`
	TimeoutMs int64 `json:"timeout_ms"`
}

// A consumer's client is made when it is told what to read: that is a setting of the client.
type consumer struct {
	args   consumerArgs
	access []kgo.Opt
	asking *kgo.Client
	client *kgo.Client
	owned  owned
}

func openConsumer(raw json.RawMessage) (handled, error) {
	args := parsed[consumerArgs](raw)
	access, err := args.opts()
	if err != nil {
		return nil, err
	}
	asking, err := kgo.NewClient(access...)
	if err != nil {
		return nil, err
	}
	return &consumer{args: args, access: access, asking: asking}, nil
}

func (c *consumer) call(ctx context.Context, op string, args json.RawMessage) (any, error) {
	switch op {
	case "assign":
		return nil, c.assign(parsed[offsetsArgs](args).Offsets)
	case "subscribe":
		return nil, c.subscribe(parsed[topicsArgs](args).Topics)
	case "subscribe_pattern":
		return nil, c.subscribe([]string{parsed[patternArgs](args).Pattern}, kgo.ConsumeRegex())
	case "read":
		return read(c.client, parsed[readArgs](args))
	case "assignment":
		return c.owned.list(), nil
	case "commit":
		return nil, c.commit(ctx, parsed[offsetsArgs](args).Offsets)
	case "committed":
		return c.committed(ctx, parsed[partitionArgs](args))
	case "end_offset":
		return c.endOffset(ctx, parsed[partitionArgs](args))
	}
	return nil, fmt.Errorf("a consumer has no %s", op)
}

func (c *consumer) settings() []kgo.Opt {
	isolation := kgo.ReadUncommitted()
	if c.args.CommittedOnly {
		isolation = kgo.ReadCommitted()
	}
	return append(
		slices.Clone(c.access),
		kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxWait(time.Duration(c.args.MaxWaitMs)*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
}

func (c *consumer) assign(starts []offset) (err error) {
	partitions := map[string]map[int32]kgo.Offset{}
	for _, each := range starts {
		if partitions[each.topic] == nil {
			partitions[each.topic] = map[int32]kgo.Offset{}
		}
		partitions[each.topic][each.partition] = kgo.NewOffset().At(each.at)
	}
	c.client, err = kgo.NewClient(append(c.settings(), kgo.ConsumePartitions(partitions))...)
	return err
}

func (c *consumer) subscribe(topics []string, how ...kgo.Opt) (err error) {
	opts := append(c.settings(), kgo.ConsumeTopics(topics...), kgo.DisableAutoCommit())
	opts = append(append(opts, how...), c.args.newProtocol()...)
	opts = append(opts, grouped(*c.args.Group, &c.owned, sessionTimeout)...)
	if c.args.InstanceID != nil {
		opts = append(opts, kgo.InstanceID(*c.args.InstanceID))
	}
	c.client, err = kgo.NewClient(opts...)
	return err
}

func grouped(group string, owned *owned, timeout time.Duration) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.SessionTimeout(timeout),
		kgo.HeartbeatInterval(heartbeat),
		kgo.OnPartitionsAssigned(owned.assigned),
		kgo.OnPartitionsRevoked(owned.gone),
		kgo.OnPartitionsLost(owned.gone),
	}
}

// reader is what a client and a session have in common.
type reader interface {
	PollRecords(ctx context.Context, count int) kgo.Fetches
}

// read answers [[topic, partition, offset, key, value], ...].
func read(client reader, args readArgs) (any, error) {
	deadline := time.Now().Add(time.Duration(args.TimeoutMs) * time.Millisecond)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	found := [][]any{}
	for len(found) < args.Count && ctx.Err() == nil {
		fetches := client.PollRecords(ctx, args.Count-len(found))
		for _, failed := range fetches.Errors() {
			if _, informational := errors.AsType[*kgo.ErrGroupSession](failed.Err); informational {
				log.Print(failed.Err) // it goes on trying to join
			} else if !errors.Is(failed.Err, context.DeadlineExceeded) {
				return nil, failed.Err
			}
		}
		fetches.EachRecord(func(each *kgo.Record) {
			found = append(found, []any{each.Topic, each.Partition, each.Offset, each.Key, each.Value})
		})
	}
	return found, nil
}

func (c *consumer) commit(ctx context.Context, offsets []offset) (err error) {
	wanted := map[string]map[int32]kgo.EpochOffset{}
	for _, each := range offsets {
		if wanted[each.topic] == nil {
			wanted[each.topic] = map[int32]kgo.EpochOffset{}
		}
		wanted[each.topic][each.partition] = kgo.EpochOffset{Epoch: -1, Offset: each.at}
	}
	c.client.CommitOffsetsSync(ctx, wanted, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, told *kmsg.OffsetCommitResponse, failed error) {
		if err = failed; err != nil {
			return
		}
		for _, topic := range told.Topics {
			for _, partition := range topic.Partitions {
				err = errors.Join(err, kerr.ErrorForCode(partition.ErrorCode))
			}
		}
	})
	return err
}

func (c *consumer) committed(ctx context.Context, args partitionArgs) (any, error) {
	found, err := kadm.NewClient(c.asking).FetchOffsets(ctx, *c.args.Group)
	if err != nil {
		return nil, err
	}
	told, there := found.Lookup(args.Topic, args.Partition)
	if !there || told.At < 0 {
		return nil, nil
	}
	return told.At, told.Err
}

func (c *consumer) endOffset(ctx context.Context, args partitionArgs) (any, error) {
	ask := kadm.NewClient(c.asking).ListEndOffsets
	if c.args.CommittedOnly {
		ask = kadm.NewClient(c.asking).ListCommittedOffsets
	}
	found, err := ask(ctx, args.Topic)
	if err != nil {
		return nil, err
	}
	told, _ := found.Lookup(args.Topic, args.Partition)
	return told.Offset, told.Err
}

func (c *consumer) fault(err error) *fault { return faultOf(err) }

func (c *consumer) close() {
	if c.client != nil {
		c.client.Close()
	}
	c.asking.Close()
}

// owned is what the group has given a member, as its callbacks tell.
type owned struct {
	guard      sync.Mutex
	partitions map[string]map[int32]bool
}

func (o *owned) assigned(_ context.Context, _ *kgo.Client, given map[string][]int32) {
	o.set(given, true)
}

func (o *owned) gone(_ context.Context, _ *kgo.Client, taken map[string][]int32) { o.set(taken, false) }

func (o *owned) set(changed map[string][]int32, ours bool) {
	o.guard.Lock()
	defer o.guard.Unlock()
	for topic, partitions := range changed {
		if o.partitions == nil {
			o.partitions = map[string]map[int32]bool{}
		}
		if o.partitions[topic] == nil {
			o.partitions[topic] = map[int32]bool{}
		}
		for _, partition := range partitions {
			o.partitions[topic][partition] = ours
		}
	}
}

func (o *owned) list() [][]any {
	o.guard.Lock()
	defer o.guard.Unlock()
	found := [][]any{}
	for topic, partitions := range o.partitions {
		for partition, ours := range partitions {
			if ours {
				found = append(found, []any{topic, partition})
			}
		}
	}
	return found
}
