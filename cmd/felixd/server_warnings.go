package main

import (
	"net"
	"strings"
)

// warnOfExposure names settings that work and are seldom meant.
func (s *server) warnOfExposure() {
	encrypts := s.config.certFile != ""
	if encrypts && s.kafka != nil && s.config.kafkaAdvertised == "" {
		s.warn("FELIX_KAFKA_ADVERTISED_ADDR is not set: Kafka clients are told the IP address that they came to, which the certificate has to name; set it to a name in the certificate")
	}
	if s.credentials == nil || encrypts {
		return
	}
	var open []string
	for _, d := range []*door{s.http, s.kafka, s.admin} {
		if d != nil && !isLoopback(d.listener.Addr()) {
			open = append(open, d.what+" "+d.boundAddr())
		}
	}
	if len(open) > 0 {
		s.warn("names and secrets cross the network unencrypted to %s; set FELIX_TLS_CERT_FILE and FELIX_TLS_KEY_FILE, unless something in front encrypts", strings.Join(open, ", "))
	}
}

func isLoopback(addr net.Addr) bool {
	bound, ok := addr.(*net.TCPAddr)
	return ok && bound.IP.IsLoopback()
}
