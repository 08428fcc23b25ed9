package main

import (
	"net"
	"strings"
)

// warnOfFsync says what an acknowledgement means to whoever may expect more of it.
func (s *server) warnOfFsync() {
	if s.config.fsyncUnchosen {
		s.warn("nobody chose the fsync mode, and it is %s: a power loss may take what was acknowledged since the last flush; "+
			"set FELIX_DURABLE_FSYNC_MODE (--fsync) to on_commit, or to periodic if that is meant", s.config.broker.Engine.Fsync())
	}
}

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
