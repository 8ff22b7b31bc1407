package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type adminArgs struct {
	Name       string            `json:"name"`
	Topic      string            `json:"topic"`
	Partition  int32             `json:"partition"`
	Partitions int32             `json:"partitions"`
	Replicas   int16             `json:"replicas"`
	Total      int               `json:"total"`
	Before     int64             `json:"before"`
	Value      string            `json:"value"`
	Group      string            `json:"group"`
	Configs    map[string]string `json:"configs"`
}

type admin struct {
	raw    *kgo.Client
	client *kadm.Client
}

func openAdmin(raw json.RawMessage) (handled, error) {
	opts, err := parsed[access](raw).opts()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	return &admin{raw: client, client: kadm.NewClient(client)}, nil
}

func (a *admin) call(ctx context.Context, op string, raw json.RawMessage) (any, error) {
	args := parsed[adminArgs](raw)
	switch op {
	case "create_topic":
		return nil, a.createTopic(ctx, args)
	case "delete_topic":
		_, err := a.client.DeleteTopic(ctx, args.Name)
		return nil, err
	case "topics":
		return a.topics(ctx)
	case "add_partitions":
		told, err := a.client.UpdatePartitions(ctx, args.Total, args.Topic)
		if err != nil {
			return nil, err
		}
		return nil, told.Error()
	case "topic_config":
		return a.topicConfig(ctx, args.Topic, args.Name)
	case "set_topic_config":
		changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: args.Name, Value: &args.Value}}
		told, err := a.client.AlterTopicConfigs(ctx, changes, args.Topic)
		if err != nil {
			return nil, err
		}
		for _, each := range told {
			if each.Err != nil {
				return nil, each.Err
			}
		}
		return nil, nil
	case "groups":
		told, err := a.client.ListGroups(ctx)
		return told.Groups(), err
	case "delete_records":
		before := kadm.Offsets{}
		before.AddOffset(args.Topic, args.Partition, args.Before, -1)
		told, err := a.client.DeleteRecords(ctx, before)
		if err != nil {
			return nil, err
		}
		return nil, told.Error()
	case "delete_group":
		_, err := a.client.DeleteGroup(ctx, args.Group)
		return nil, err
	}
	return nil, fmt.Errorf("an admin client has no %s", op)
}

func (a *admin) createTopic(ctx context.Context, args adminArgs) error {
	configs := map[string]*string{}
	for name, value := range args.Configs {
		configs[name] = &value
	}
	_, err := a.client.CreateTopic(ctx, args.Partitions, args.Replicas, configs, args.Name)
	return err
}

// topics asks the broker: kadm's ListTopics answers from what it remembers, and forgets a topic that it has just changed.
func (a *admin) topics(ctx context.Context) (any, error) {
	told, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, a.raw)
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, topic := range told.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return nil, err
		}
		found[*topic.Topic] = len(topic.Partitions)
	}
	return found, nil
}

func (a *admin) topicConfig(ctx context.Context, topic, name string) (any, error) {
	told, err := a.client.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, each := range told {
		if each.Err != nil {
			return nil, each.Err
		}
		for _, config := range each.Configs {
			if config.Key == name {
				return config.MaybeValue(), nil
			}
		}
	}
	return nil, kerr.InvalidConfig
}

func (a *admin) fault(err error) *fault { return faultOf(err) }

func (a *admin) close() { a.client.Close() }
