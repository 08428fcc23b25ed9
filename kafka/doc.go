// Package kafka is the Kafka protocol in front of package broker: a topic is a
// stream, a partition is a shard.
package kafka
