package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

type sessionArgs struct {
	producerArgs
	Group  string   `json:"group"`
	Topics []string `json:"topics"`
}

type endArgs struct {
	Commit bool `json:"commit"`
}

// A session reads in a group and writes in a transaction, and adds the offsets of what it read to that transaction: the
// only way in which franz-go commits offsets in transactions.
type session struct {
	raw            *kgo.GroupTransactSession
	owned          owned
	secondProtocol bool
	sent           sent
}

func openSession(raw json.RawMessage) (handled, error) {
	args := parsed[sessionArgs](raw)
	made := &session{}
	opts, err := producing(args.producerArgs)
	if err != nil {
		return nil, err
	}
	opts = append(opts, grouped(args.Group, &made.owned, killedSessionTimeout)...)
	opts = append(
		opts,
		kgo.ConsumeTopics(args.Topics...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequireStableFetchOffsets(),
	)
	opts = append(opts, args.newProtocol()...)
	made.raw, err = kgo.NewGroupTransactSession(opts...)
	return made, err
}

func (s *session) call(ctx context.Context, op string, args json.RawMessage) (any, error) {
	switch op {
	case "init":
		var err error
		s.secondProtocol, err = secondProtocol(ctx, s.raw.Client())
		return nil, err
	case "begin":
		return nil, s.raw.Begin()
	case "read":
		return read(s.raw, parsed[readArgs](args))
	case "send":
		send(s.raw, parsed[sendArgs](args), s.sent.promise)
		return nil, nil
	case "flush":
		if err := s.raw.Client().Flush(ctx); err != nil {
			return nil, err
		}
		return nil, s.sent.take()
	case "end":
		return s.end(ctx, parsed[endArgs](args).Commit)
	}
	return nil, fmt.Errorf("a session has no %s", op)
}

// end answers whether the transaction was committed. Records that were refused make it an abort, as franz-go's examples do.
func (s *session) end(ctx context.Context, commit bool) (any, error) {
	if commit {
		if err := s.raw.Client().Flush(ctx); err != nil {
			return nil, err
		}
		commit = s.sent.take() == nil
	}
	return s.raw.End(ctx, kgo.TransactionEndTry(commit))
}

func (s *session) fault(err error) *fault { return transactionalFault(err, s.secondProtocol) }

func (s *session) close() { s.raw.Close() }
