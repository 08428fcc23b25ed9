package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The keys of the requests that are answered.
const (
	keyProduce            int16 = 0
	keyFetch              int16 = 1
	keyListOffsets        int16 = 2
	keyMetadata           int16 = 3
	keyOffsetCommit       int16 = 8
	keyOffsetFetch        int16 = 9
	keyFindCoordinator    int16 = 10
	keyJoinGroup          int16 = 11
	keyHeartbeat          int16 = 12
	keyLeaveGroup         int16 = 13
	keySyncGroup          int16 = 14
	keySASLHandshake      int16 = 17
	keyAPIVersions        int16 = 18
	keyCreateTopics       int16 = 19
	keyDeleteTopics       int16 = 20
	keyDeleteRecords      int16 = 21
	keyInitProducerID     int16 = 22
	keyOffsetForEpoch     int16 = 23
	keyDescribeConfigs    int16 = 32
	keySASLAuthenticate   int16 = 36
	keyCreatePartitions   int16 = 37
	keyDescribeCluster    int16 = 60
	keyMax                      = keyDescribeCluster
	versionsNeverFlexible int16 = 1<<15 - 1
)

// handler carries out a request and gives its answer. An error ends the connection.
type handler func(c *conn, x *exchange) (*response, error)

// api is a request that is answered, in these versions.
type api struct {
	key, min, max int16
	// stranger says that it is answered before authentication.
	stranger bool
	handle   handler
	// flexible is the first version with tagged fields.
	flexible int16
}

// supported lists what is answered. Nothing else is advertised, but for Produce 0 to
// 2: librdkafka compresses only for a server that lists version 0.
//
// Versions end where topic ids begin (Metadata 10, CreateTopics 7, DeleteTopics 6,
// Fetch 13, Produce 13, OffsetCommit 10), where FindCoordinator and OffsetFetch ask for
// several groups (4 and 8), where ListOffsets asks for the largest timestamp (7), and
// where transactions are taken for granted (Produce 10).
func supported() []api {
	list := []api{
		{key: keyProduce, min: 0, max: 9}, // handled by the reader
		{key: keyFetch, min: 4, max: 12, handle: (*conn).fetch},
		{key: keyListOffsets, min: 1, max: 6, handle: (*conn).listOffsets},
		{key: keyMetadata, min: 0, max: 9, handle: (*conn).metadata},
		{key: keyOffsetCommit, min: 0, max: 9, handle: (*conn).offsetCommit}, // refuses
		{key: keyOffsetFetch, min: 0, max: 7, handle: (*conn).offsetFetch},   // knows of none
		{key: keyFindCoordinator, min: 0, max: 3, handle: (*conn).findCoordinator},
		{key: keyJoinGroup, min: 0, max: 9, handle: (*conn).membership}, // refuses, as do the next three
		{key: keyHeartbeat, min: 0, max: 4, handle: (*conn).membership},
		{key: keyLeaveGroup, min: 0, max: 5, handle: (*conn).membership},
		{key: keySyncGroup, min: 0, max: 5, handle: (*conn).membership},
		{key: keySASLHandshake, min: 0, max: 1, stranger: true, handle: (*conn).saslHandshake},
		{key: keyAPIVersions, min: 0, max: 3, stranger: true, handle: (*conn).apiVersions},
		{key: keyCreateTopics, min: 0, max: 6, handle: (*conn).createTopics},
		{key: keyDeleteTopics, min: 0, max: 5, handle: (*conn).deleteTopics},
		{key: keyDeleteRecords, min: 0, max: 2, handle: (*conn).deleteRecords},
		{key: keyInitProducerID, min: 0, max: 4, handle: (*conn).initProducerID},
		{key: keyOffsetForEpoch, min: 0, max: 4, handle: (*conn).offsetForLeaderEpoch},
		{key: keyDescribeConfigs, min: 0, max: 4, handle: (*conn).describeConfigs},
		{key: keySASLAuthenticate, min: 0, max: 2, stranger: true, handle: (*conn).saslAuthenticate},
		{key: keyCreatePartitions, min: 0, max: 3, handle: (*conn).createPartitions},
		{key: keyDescribeCluster, min: 0, max: 0, handle: (*conn).describeCluster},
	}
	for i := range list {
		list[i].flexible = firstFlexible(list[i].key)
	}
	return list
}

func firstFlexible(key int16) int16 {
	request := kmsg.RequestForKey(key)
	for version := range request.MaxVersion() + 1 {
		request.SetVersion(version)
		if request.IsFlexible() {
			return version
		}
	}
	return versionsNeverFlexible
}

// flexible says whether this version of a request has tagged fields.
func (s *Server) flexible(key, version int16) bool {
	a := s.apis[key]
	return a != nil && version >= a.flexible
}

func unsupportedText(h requestHeader) string {
	name := kmsg.NameForKey(h.key)
	if name == "" {
		name = "request"
	}
	return fmt.Sprintf("%s (key %d, version %d) is not supported; ApiVersions lists what is", name, h.key, h.version)
}

func (c *conn) apiVersions(x *exchange) (*response, error) {
	var request kmsg.ApiVersionsRequest
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	return c.versions(x, codeNone), nil
}

// apiVersionsUnsupported answers a client that is newer than this server: in version
// 0, which every client reads, with what it may ask for.
func (c *conn) apiVersionsUnsupported(x *exchange) (*response, error) {
	return c.versions(x, codeUnsupportedVersion), nil
}

func (c *conn) versions(x *exchange, result code) *response {
	out := kmsg.NewApiVersionsResponse()
	out.ErrorCode = int16(result)
	for _, a := range supported() {
		key := kmsg.NewApiVersionsResponseApiKey()
		key.ApiKey, key.MinVersion, key.MaxVersion = a.key, a.min, a.max
		out.ApiKeys = append(out.ApiKeys, key)
	}
	return c.reply(x, &out)
}
