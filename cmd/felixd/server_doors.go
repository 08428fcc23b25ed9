package main

import (
	"crypto/tls"
	"net"
	"slices"

	"felix.local/felix/httpapi"
	"felix.local/felix/kafka"
)

// openDoors starts HTTP and Kafka on the listeners that are bound.
func (s *server) openDoors(tlsConfig *tls.Config) error {
	if s.http != nil {
		front, err := httpapi.New(httpapi.Config{
			Broker: s.broker, Credentials: s.credentials, Logger: s.logger, Observer: s.exporter,
			BodyBytesMax: s.config.broker.BatchBytesMax, BatchRecordsMax: s.config.broker.BatchRecordsMax,
			ConnectionsMax: s.config.httpConnectionsMax, Hosts: s.names(s.config.httpAddr),
		})
		if err != nil {
			return err
		}
		s.exporter.AttachHTTP(front)
		s.http.listener = encrypted(s.http.listener, tlsConfig, "h2", "http/1.1")
		s.run(s.http, front.Serve, front.Shutdown)
	}
	if s.kafka != nil {
		front, err := kafka.New(kafka.Config{
			Broker: s.broker, Credentials: s.credentials, Logger: s.logger,
			AdvertisedAddr: s.config.kafkaAdvertised, AutoCreate: s.config.kafkaAutoCreate,
			DefaultTenant: s.config.defaultTenant, DefaultNamespace: s.config.defaultNamespace,
			ConnectionsMax: s.config.kafkaConnectionsMax,
		})
		if err != nil {
			return err
		}
		s.exporter.AttachKafka(front)
		s.kafka.listener = encrypted(s.kafka.listener, tlsConfig)
		s.run(s.kafka, front.Serve, front.Shutdown)
	}
	return nil
}

// names are those that a listener may be called by: what was said, and the host of the
// address it was configured with.
func (s *server) names(addr string) []string { return append(slices.Clone(s.config.hosts), addr) }

// encrypted makes a listener speak TLS, when there is a configuration, and within it
// one of the protocols.
func encrypted(listener net.Listener, config *tls.Config, protocols ...string) net.Listener {
	if config == nil {
		return listener
	}
	config = config.Clone()
	config.NextProtos = protocols
	return tls.NewListener(listener, config)
}
