package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// access is where the brokers are and how they are reached: over TLS if there is an authority to trust, with a
// certificate, or by a mechanism of SASL.
type access struct {
	Bootstrap string `json:"bootstrap"`
	Access    *struct {
		CA          string `json:"ca"`
		Certificate string `json:"certificate"`
		Mechanism   string `json:"mechanism"`
		User        string `json:"user"`
		Password    string `json:"password"`
		Token       string `json:"token"`
		Protocol    string `json:"group.protocol"`
	} `json:"access"`
}

// newProtocol has the broker assign partitions (KIP-848): franz-go then asks for one of two balancers, and no other.
func (a access) newProtocol() []kgo.Opt {
	if a.Access == nil || a.Access.Protocol != "consumer" {
		return nil
	}
	return []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())}
}

// opts are the settings of every client. The brokers' addresses have commas between them.
func (a access) opts() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(a.Bootstrap, ",")...)}
	if a.Access == nil {
		return opts, nil
	}
	if a.Access.CA != "" {
		config, err := a.tls()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if a.Access.Mechanism != "" {
		mechanism, err := a.mechanism()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

func (a access) tls() (*tls.Config, error) {
	trusted, err := os.ReadFile(a.Access.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(trusted)
	if file := a.Access.Certificate; file != "" { // with its key
		pair, err := tls.LoadX509KeyPair(file, file)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (a access) mechanism() (sasl.Mechanism, error) {
	user, password := a.Access.User, a.Access.Password
	switch a.Access.Mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: a.Access.Token}.AsMechanism(), nil
	}
	return nil, fmt.Errorf("there is no mechanism %s", a.Access.Mechanism)
}
