package main

import (
	"context"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

type franz struct{ client *kgo.Client }

func openFranz(asked settings) (producer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(asked.servers, ",")...),
		kgo.SASL(plain.Auth{User: asked.user, Pass: asked.password}.AsMechanism()),
		kgo.DefaultProduceTopic(asked.topic),
		kgo.ClientID(asked.clientID),
	)
	return franz{client}, err
}

func (its franz) send(value string) error {
	return its.client.ProduceSync(context.Background(), kgo.StringRecord(value)).FirstErr()
}

func (its franz) close() { its.client.Close() }
