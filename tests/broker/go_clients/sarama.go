package main

import (
	"strings"

	"github.com/IBM/sarama"
)

type saramaProducer struct {
	producer sarama.SyncProducer
	topic    string
}

func openSarama(asked settings) (producer, error) {
	config := sarama.NewConfig()
	config.ClientID = asked.clientID
	config.Net.SASL.Enable = true
	config.Net.SASL.User, config.Net.SASL.Password = asked.user, asked.password
	config.Producer.Idempotent = true
	// What it needs for that.
	config.Net.MaxOpenRequests = 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	opened, err := sarama.NewSyncProducer(strings.Split(asked.servers, ","), config)
	return saramaProducer{opened, asked.topic}, err
}

func (its saramaProducer) send(value string) error {
	_, _, err := its.producer.SendMessage(&sarama.ProducerMessage{Topic: its.topic, Value: sarama.StringEncoder(value)})
	return err
}

func (its saramaProducer) close() { its.producer.Close() }
