package kafka

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// The configurations of a topic.
const (
	configRetentionBytes = "retention.bytes"
	configRetentionMS    = "retention.ms"
	configFormat         = "felix.format"
	configDurable        = "felix.durable"
	configFsync          = "felix.fsync"
)

// The values of felix.format.
const (
	formatRaw   = "raw"
	formatKafka = "kafka"
)

// keepAll is how Kafka writes a retention without a bound.
const keepAll = -1

// setConfig reads one configuration of a topic to be created.
func setConfig(cfg *broker.StreamConfig, name string, value *string) error {
	if value == nil {
		return refuse(codeInvalidConfig, name+" has no value")
	}
	switch name {
	case configRetentionBytes:
		bytes, err := retention(name, *value, math.MaxInt64)
		cfg.RetentionBytes = &bytes
		return err
	case configRetentionMS:
		ms, err := retention(name, *value, math.MaxInt64/int64(time.Millisecond))
		age := time.Duration(ms) * time.Millisecond
		cfg.RetentionAge = &age
		return err
	case configFormat:
		return setFormat(cfg, *value)
	case configDurable:
		durable, err := strconv.ParseBool(*value)
		if err != nil {
			return invalidConfig(name, *value, "true or false")
		}
		cfg.Durable = durable
		return nil
	case configFsync:
		mode, err := engine.ParseFsyncMode(*value)
		if err != nil {
			return invalidConfig(name, *value, "none, periodic or on_commit")
		}
		cfg.Fsync = &mode
		return nil
	default:
		return refuse(codeInvalidConfig, fmt.Sprintf("%.100q is no configuration of a topic; %s, %s, %s, %s and %s are",
			name, configRetentionBytes, configRetentionMS, configFormat, configDurable, configFsync))
	}
}

// retention reads a bound: what the broker calls 0, keeping all, is -1 here.
func retention(name, value string, most int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n == 0 || n < keepAll || n > most {
		return 0, invalidConfig(name, value, "-1, which keeps all, or a positive number that fits")
	}
	if n == keepAll {
		return 0, nil
	}
	return n, nil
}

func setFormat(cfg *broker.StreamConfig, value string) error {
	switch value {
	case formatRaw:
		cfg.Format = broker.FormatRaw
	case formatKafka:
		cfg.Format = broker.FormatKafka
	default:
		return invalidConfig(configFormat, value, "raw or kafka")
	}
	return nil
}

func invalidConfig(name, value, allowed string) error {
	return refuse(codeInvalidConfig, fmt.Sprintf("%s is %.100q; it can be %s", name, value, allowed))
}

// setting is a configuration as it is in effect.
type setting struct {
	name, value string
	kind        kmsg.ConfigType
}

// topicSettings are the configurations of a stream, those that have a value.
func topicSettings(cfg broker.StreamConfig) []setting {
	format := formatKafka
	if cfg.Format == broker.FormatRaw {
		format = formatRaw
	}
	list := []setting{
		{configFormat, format, kmsg.ConfigTypeString},
		{configDurable, strconv.FormatBool(cfg.Durable), kmsg.ConfigTypeBoolean},
	}
	if cfg.Fsync != nil {
		list = append(list, setting{configFsync, cfg.Fsync.String(), kmsg.ConfigTypeString})
	}
	if cfg.RetentionBytes != nil {
		list = append(list, setting{configRetentionBytes, kafkaRetention(*cfg.RetentionBytes), kmsg.ConfigTypeLong})
	}
	if cfg.RetentionAge != nil {
		list = append(list, setting{configRetentionMS, kafkaRetention(cfg.RetentionAge.Milliseconds()), kmsg.ConfigTypeLong})
	}
	return list
}

func kafkaRetention(n int64) string {
	if n == 0 {
		n = keepAll
	}
	return strconv.FormatInt(n, 10)
}

func createdConfigs(cfg broker.StreamConfig) []kmsg.CreateTopicsResponseTopicConfig {
	var list []kmsg.CreateTopicsResponseTopicConfig
	for _, s := range topicSettings(cfg) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.ReadOnly = s.name, kmsg.StringPtr(s.value), true
		c.Source = int8(kmsg.ConfigSourceDynamicTopicConfig)
		list = append(list, c)
	}
	return list
}
