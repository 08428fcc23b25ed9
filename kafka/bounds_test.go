package kafka

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
)

func TestANameThatIsRepeatedIsAnsweredOnce(t *testing.T) {
	r := start(t)
	r.create("wide", 100, nil)
	metadata := version(9, kmsg.NewPtrMetadataRequest())
	configs := version(4, kmsg.NewPtrDescribeConfigsRequest())
	for range 10_000 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr("wide")
		metadata.Topics = append(metadata.Topics, topic)
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, "wide"
		configs.Resources = append(configs.Resources, resource)
	}
	c := r.dial()
	if n := len(c.ask(metadata).(*kmsg.MetadataResponse).Topics); n != 1 {
		t.Errorf("Metadata answers %d topics", n)
	}
	if n := len(c.ask(configs).(*kmsg.DescribeConfigsResponse).Resources); n != 1 {
		t.Errorf("DescribeConfigs answers %d resources", n)
	}
}

func TestAProduceForTooManyPartitionsEndsTheConnection(t *testing.T) {
	r := start(t, func(c *Config, _ *broker.Config) { c.PartitionsMax = 3 })
	r.create("t", 1, nil)
	request := produceOf("t", 0, value("v"))
	part := request.Topics[0].Partitions[0]
	request.Topics[0].Partitions = append(request.Topics[0].Partitions, part, part)
	c := r.dial()
	if got := c.ask(request).(*kmsg.ProduceResponse).Topics[0].Partitions; len(got) != 3 || got[2].BaseOffset != 2 {
		t.Errorf("three entries gave %+v", got)
	}
	request.Topics[0].Partitions = append(request.Topics[0].Partitions, part)
	c.send(request)
	c.ended("four entries")
}

func TestAWaitingFetchHoldsOnlyTheMemoryOfWhatItHas(t *testing.T) {
	r := start(t)
	r.create("t", 1, nil)
	c := r.dial()
	c.ask(produceOf("t", 0, value("v")))
	fetch := fetchOf("t", 0, 0)
	fetch.MinBytes, fetch.MaxWaitMillis = 1<<20, 60_000
	c.send(fetch)
	r.until("the fetch waits with a record", func() bool {
		used := r.server.Stats().ResponseMemory
		return used > 0 && used < 1000
	})
	large := encode([]broker.Record{{Message: broker.Message{Value: make([]byte, 1<<20)}}})
	r.dial().ask(produceOf("t", 0, large))
	got := c.receive(fetch, c.correlation).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	d := newDecoder(10, 0)
	if err := d.decode(got.RecordBatches); err != nil || len(d.messages) == 0 {
		t.Errorf("%d records, %v", len(d.messages), err)
	}
}

func TestAConfigurationThatCannotBeIsRefusedWithAllItsProblems(t *testing.T) {
	_, err := New(Config{DefaultTenant: "a/b", AdvertisedAddr: "nowhere", NodeID: -1, InFlightMax: -1})
	var refused *ConfigError
	if !errors.As(err, &refused) || len(refused.Problems) != 5 {
		t.Fatalf("%T: %v", err, err)
	}
	for _, want := range []string{"Broker", "default name", "AdvertisedAddr", "NodeID", "InFlightMax"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q says nothing of %s", err, want)
		}
	}
}

func TestEveryNumberOfAConfigurationIsChecked(t *testing.T) {
	for i := range reflect.TypeFor[Config]().NumField() {
		cfg := Config{Broker: new(broker.Broker)}
		field, name := reflect.ValueOf(&cfg).Elem().Field(i), reflect.TypeFor[Config]().Field(i).Name
		if !field.CanInt() {
			continue
		}
		if usual, err := cfg.withDefaults(); err != nil || name != "NodeID" && reflect.ValueOf(usual).Field(i).Int() <= 0 {
			t.Errorf("%s has no default: %v", name, err)
		}
		field.SetInt(-1)
		var refused *ConfigError
		if _, err := New(cfg); !errors.As(err, &refused) || !strings.Contains(err.Error(), name+" is -1") {
			t.Errorf("%s below zero: %v", name, err)
		}
	}
}
