package kafka

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestAProducerWithTransactionsIsToldThatThereAreNone(t *testing.T) {
	r := start(t)
	request := version(3, kmsg.NewPtrFindCoordinatorRequest())
	request.CoordinatorKey, request.CoordinatorType = "name", 1
	got := r.dial().ask(request).(*kmsg.FindCoordinatorResponse)
	if code(got.ErrorCode) != codeTransactionalIDAuthorizationFailed || got.ErrorMessage == nil || *got.ErrorMessage != noTransactions || got.NodeID != -1 {
		t.Errorf("got %+v", got)
	}
}

// librdkafka used to wait for ever, without a word.
func TestKcatInAGroupEndsAndSaysWhy(t *testing.T) {
	r := start(t)
	r.create("events", 1, nil)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"group":       {[]string{"-G", "group", "events"}, "Group authorization failed"},
		"transaction": {[]string{"-P", "-t", "events", "-X", "transactional.id=name"}, "init_transactions(): " + "Failed to find transaction coordinator"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath("kcat")
			if err != nil {
				t.Skip("kcat is not installed; apt-get install kcat")
			}
			out, err := exec.CommandContext(r.ctx(), path, append([]string{"-b", r.addr}, c.args...)...).CombinedOutput()
			if r.ctx().Err() != nil || err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("it ended with %v and said:\n%s", err, out)
			}
		})
	}
}

func TestFranzGoInAGroupIsToldWhy(t *testing.T) {
	r := start(t)
	r.create("events", 1, nil)
	c := r.client(kgo.ConsumerGroup("group"), kgo.ConsumeTopics("events"))
	fetches := c.PollFetches(r.ctx())
	if err := fetches.Err(); err == nil || !strings.Contains(err.Error(), "GROUP_AUTHORIZATION_FAILED") {
		t.Errorf("polling gave %v", err)
	}
}
