package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A fault is an error as it travels.
type fault struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Code    *int16 `json:"code"`
	Message string `json:"message"`
}

// An unsupported call is one that franz-go does not have.
type unsupported string

func (u unsupported) Error() string { return string(u) }

// faultOf says of an error what franz-go's documentation says of it outside of transactions.
func faultOf(err error) *fault {
	var missing unsupported
	if errors.As(err, &missing) {
		return &fault{Kind: "refused", Name: "UNSUPPORTED_CALL", Message: string(missing)}
	}
	told := &fault{Kind: "refused", Name: fmt.Sprintf("%T", err), Message: err.Error()}
	if known, ok := errors.AsType[*kerr.Error](err); ok {
		told.Name, told.Code = known.Message, &known.Code
		if known.Retriable {
			told.Kind = "retriable"
		}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, kgo.ErrRecordTimeout) {
		told.Kind, told.Name = "timeout", "TIMED_OUT"
	}
	return told
}

// transactionalFault says of an error what kgo's EndTransaction documents: from what a producer recovers when its
// application aborts. Under the second transaction protocol (KIP-890) that is less.
func transactionalFault(err error, secondProtocol bool) *fault {
	told := faultOf(err)
	if told.Code == nil || told.Kind == "retriable" {
		return told
	}
	recoverable := []error{kerr.UnknownProducerID, kerr.TransactionAbortable, kerr.OperationNotAttempted}
	if !secondProtocol {
		recoverable = append(recoverable, kerr.InvalidProducerIDMapping, kerr.InvalidProducerEpoch)
	}
	for _, each := range recoverable {
		if errors.Is(err, each) {
			told.Kind = "abortable"
			return told
		}
	}
	told.Kind = "fatal"
	return told
}
