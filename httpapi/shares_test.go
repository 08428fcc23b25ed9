package httpapi

import (
	"net/http"
	"strings"
	"testing"
)

func TestOneClientsBodiesLeaveRoomForOthers(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BufferedBytesMax: 8 * bodyBufferBytes, Credentials: credentials(t)})
	admin, writer := bearer("admin", adminSecret), bearer("writer", writerSecret)
	f.send("PUT", orders, `{"durable":false}`, admin).want(http.StatusCreated)
	for range 4 {
		c := f.dial()
		c.write("POST " + orders + "/records HTTP/1.1\r\nHost: x\r\n" + writer + "\r\nContent-Length: 10\r\n\r\n12345")
	}
	eventually(t, "the bodies are being read", func() bool { return f.server.Stats().BufferedBytes == 4*bodyBufferBytes })
	f.send("POST", orders+"/records", "x", writer).refused(http.StatusTooManyRequests, codeBackPressure)
	f.send("POST", orders+"/records", "x", bearer("both", bothSecret)).want(http.StatusOK)
}

func TestTheLargestBodyFindsRoomBesideAnotherOfItsClient(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	f.stall()
	f.publish(strings.Repeat("x", DefaultBodyBytesMax-1000))
}

func TestAPageHoldsWhatItIsAndNotWhatItMightHaveBeen(t *testing.T) {
	f := start(t, durable(t, t.TempDir()), Config{PageBytesMax: 64 << 20})
	f.stream("")
	f.publish(strings.Repeat("x", 16<<20))
	c := f.dial() // takes nothing
	c.write("GET " + orders + "/records?max_bytes=67108864 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, "the page is read", func() bool { n := f.server.Stats().PageBytes; return n > 16<<20 && n < 17<<20 })
	c.Close()
}

func TestABatchIsCountedWithWhatIsMadeOfIt(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{BufferedBytesMax: 256 << 10, BufferedBytesClient: 256 << 10})
	f.stream(`{"durable":false,"format":"kafka"}`)
	f.stall()
	many := strings.Repeat(`{"text":""}`+"\n", 2500) // 27 KB of body, and ten times that as records
	f.send("POST", orders+"/records", many, "Content-Type: "+mediaNDJSON).refused(http.StatusTooManyRequests, codeBackPressure)
	headers := `{"text":"","headers":[` + strings.TrimSuffix(strings.Repeat(`{"key":"","text":""},`, 1000), ",") + "]}\n"
	f.send("POST", orders+"/records", strings.Repeat(headers, 5), "Content-Type: "+mediaNDJSON).refused(http.StatusTooManyRequests, codeBackPressure)
	blank := `{"text":""}` + strings.Repeat(" \n", 10_000)
	f.send("POST", orders+"/records", blank, "Content-Type: "+mediaNDJSON).want(http.StatusOK)
}

// stall leaves a publish under way, so that no other is alone.
func (f *fixture) stall() {
	f.t.Helper()
	c := f.dial()
	c.write("POST " + orders + "/records HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12345")
	eventually(f.t, "the body is being read", func() bool { return f.server.Stats().BufferedBytes == bodyBufferBytes })
}

func TestSubscriptionsShareTheBoundOnPagesAndWaitForIt(t *testing.T) {
	const page, readers = 64 << 10, 8
	f := start(t, durable(t, t.TempDir()), Config{
		FeedPageBytes: page, PageBytes: page, PageBytesMax: page, PagesBytesMax: 2 * page, PagesBytesClient: 2 * page, WriteTimeout: patience,
	})
	f.stream("")
	for range 500 {
		f.publish(strings.Repeat("x", page-1000))
	}
	var clients []*raw
	for range readers { // who take nothing
		c := f.dial()
		c.write("GET " + orders + "/subscribe?from=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		clients = append(clients, c)
	}
	eventually(t, "two hold their pages, and the others wait", func() bool {
		if n := f.server.Stats().PageBytes; n > 2*page {
			t.Fatalf("%d bytes are held", n)
		}
		return f.server.Stats().Subscriptions == readers && f.server.pages.waiters() == readers-2
	})
	for _, c := range clients[1:] {
		c.Close()
	}
	eventually(t, "they are gone", func() bool { return f.server.Stats().Subscriptions == 1 })
	e := f.subscribe("?from=499")
	e.expect("subscribed")
	if l := e.expect("record"); l.Offset != 499 {
		t.Errorf("%+v", l)
	}
	clients[0].Close()
}
