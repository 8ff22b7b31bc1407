// A transactional copier of franz-go, as an application is written, for `eosin lab run`: a session reads `input` as a
// member of a group and writes each record to `output`, in transactions with its offsets. A session whose end fails is
// closed, and another one goes on from the committed offsets.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	callTimeout = 10 * time.Second
	pollTimeout = 200 * time.Millisecond
	pause       = 100 * time.Millisecond
	stuckAfter  = 15 * time.Second
	most        = 20
)

var aliveAt atomic.Int64

func main() {
	log.SetPrefix("copier: ")
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	alive()
	go watch()
	for ctx.Err() == nil {
		if err := copyAll(ctx); err != nil {
			log.Print("a new session after ", err)
			time.Sleep(pause)
		}
	}
}

func alive() { aliveAt.Store(time.Now().UnixNano()) }

// watch ends the process when it makes no progress, for its supervisor to start it again.
func watch() {
	for time.Since(time.Unix(0, aliveAt.Load())) < stuckAfter {
		time.Sleep(pause)
	}
	log.Print("stuck")
	os.Exit(3)
}

func newSession() (*kgo.GroupTransactSession, error) {
	return kgo.NewGroupTransactSession(
		kgo.SeedBrokers(os.Getenv("KAFKA_BOOTSTRAP_SERVERS")),
		kgo.TransactionalID("copier-1"),
		kgo.ConsumerGroup("copiers"),
		kgo.ConsumeTopics("input"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RequireStableFetchOffsets(),
		kgo.SessionTimeout(10*time.Second), // a session that is closed while its broker is down cannot leave the group
		kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(100*time.Millisecond),
		kgo.RequestTimeoutOverhead(3*time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
}

// copyAll copies in one session until an error makes it useless.
func copyAll(ctx context.Context) error {
	session, err := newSession()
	if err != nil {
		return err
	}
	defer session.Close()
	if err := fence(ctx, session); err != nil {
		return err
	}
	for ctx.Err() == nil {
		alive()
		records, err := poll(ctx, session)
		if err != nil {
			return err
		}
		if len(records) > 0 {
			if err := copySome(session, records); err != nil {
				return err
			}
		}
	}
	return nil
}

// fence ends what a predecessor has left open. By itself a session does so at its first record, which a reader of stable
// offsets does not get before that transaction has timed out.
func fence(ctx context.Context, session *kgo.GroupTransactSession) error {
	timed, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, _, err := session.Client().ProducerID(timed)
	return err
}

func poll(ctx context.Context, session *kgo.GroupTransactSession) ([]*kgo.Record, error) {
	timed, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fetches := session.PollRecords(timed, most)
	for _, failed := range fetches.Errors() {
		_, informational := errors.AsType[*kgo.ErrGroupSession](failed.Err)
		if informational || kgo.IsRetryableBrokerErr(failed.Err) {
			log.Print(failed.Err) // it goes on trying to join, or to connect
		} else if timed.Err() == nil {
			return nil, failed.Err
		}
	}
	return fetches.Records(), nil
}

// copySome is one transaction. What was not committed is read again by the session itself.
func copySome(session *kgo.GroupTransactSession, records []*kgo.Record) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := session.Begin(); err != nil {
		return err
	}
	sent := kgo.AbortingFirstErrPromise(session.Client())
	for _, each := range records {
		copied := &kgo.Record{Topic: "output", Partition: each.Partition, Key: each.Key, Value: each.Value}
		session.Produce(ctx, copied, sent.Promise())
	}
	failed := sent.Err()
	if failed != nil {
		log.Print("aborts after ", failed)
	}
	_, err := session.End(ctx, kgo.TransactionEndTry(failed == nil))
	if errors.Is(failed, kerr.UnknownTopicID) {
		return failed // a client never takes another id for a topic that was made anew
	}
	return err
}
