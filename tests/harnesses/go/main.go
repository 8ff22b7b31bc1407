// Harness lets Eosin's tests drive franz-go. It reads one request per line on stdin and writes one answer per line on
// stdout, both JSON, as tests/support/real_clients/harness.py describes. Requests of one handle run in order, those of
// different handles side by side. The end of stdin ends the process.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"
)

// A client gives up by itself before this, and the tests after it.
const callLimit = 40 * time.Second

type request struct {
	ID     int64           `json:"id"`
	Op     string          `json:"op"`
	Handle string          `json:"handle"`
	Args   json.RawMessage `json:"args"`
}

type answer struct {
	ID     int64  `json:"id"`
	Result any    `json:"result"`
	Error  *fault `json:"error,omitempty"`
}

// A handled thing is a producer, a consumer, a session or an admin client.
type handled interface {
	call(ctx context.Context, op string, args json.RawMessage) (any, error)
	fault(err error) *fault
	close()
}

// One handle's requests, in the order in which they came.
type line struct {
	waiting chan request
	thing   handled
}

type harness struct {
	writing sync.Mutex
	out     *bufio.Writer
}

func main() {
	log.SetOutput(os.Stderr)
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	h := &harness{out: bufio.NewWriter(os.Stdout)}
	lines := map[string]*line{}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		raw, err := in.ReadBytes('\n')
		if err != nil {
			os.Exit(0)
		}
		var asked request
		if err := json.Unmarshal(raw, &asked); err != nil {
			log.Fatalf("not a request: %v: %s", err, raw)
		}
		queue, known := lines[asked.Handle]
		if !known {
			queue = &line{waiting: make(chan request, 1<<16)}
			lines[asked.Handle] = queue
			go h.serve(queue)
		}
		queue.waiting <- asked
		if strings.HasSuffix(asked.Op, ".close") {
			close(queue.waiting)
			delete(lines, asked.Handle)
		}
	}
}

func (h *harness) serve(queue *line) {
	for asked := range queue.waiting {
		result, failed := queue.handle(asked)
		h.write(answer{ID: asked.ID, Result: result, Error: failed})
	}
}

func (l *line) handle(asked request) (any, *fault) {
	kind, op, _ := strings.Cut(asked.Op, ".")
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	switch {
	case op == "open":
		thing, err := open(kind, asked.Args)
		if err != nil {
			return nil, faultOf(err)
		}
		l.thing = thing
		return nil, nil
	case op == "close":
		if l.thing != nil {
			l.thing.close()
		}
		return nil, nil
	case l.thing == nil:
		return nil, &fault{Kind: "refused", Name: "NOT_OPEN", Message: asked.Op + " without an open"}
	}
	result, err := l.thing.call(ctx, op, asked.Args)
	if err != nil {
		return nil, l.thing.fault(err)
	}
	return result, nil
}

func open(kind string, args json.RawMessage) (handled, error) {
	switch kind {
	case "producer":
		return openProducer(args)
	case "consumer":
		return openConsumer(args)
	case "session":
		return openSession(args)
	case "admin":
		return openAdmin(args)
	}
	return nil, fmt.Errorf("there is no %s", kind)
}

func (h *harness) write(told answer) {
	raw, err := json.Marshal(told)
	if err != nil {
		log.Fatalf("an answer that is no JSON: %v", err)
	}
	h.writing.Lock()
	defer h.writing.Unlock()
	h.out.Write(raw)
	h.out.WriteByte('\n')
	h.out.Flush()
}

// parsed reads the arguments of an operation. What Python sends is always right, or the harness is wrong.
func parsed[T any](args json.RawMessage) T {
	var read T
	if err := json.Unmarshal(args, &read); err != nil {
		log.Fatalf("arguments %s: %v", args, err)
	}
	return read
}
