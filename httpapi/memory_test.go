package httpapi

import (
	"runtime"
	"testing"
)

// held is what the heap holds after a collection.
func held() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func TestASilentSubscriptionHoldsLittle(t *testing.T) {
	f := start(t, inMemory(t, brokerDefaults), Config{})
	f.stream(`{"durable":false}`)
	const many = 200
	before := held()
	for range many {
		// On connections of their own, as clients have them; these cost memory too, on
		// the client's side about as much again.
		c := f.dial()
		c.write("GET " + orders + "/subscribe HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	eventually(t, "all are subscribed", func() bool { return f.server.Stats().Subscriptions == many })
	if each := (int64(held()) - int64(before)) / many; each > 64<<10 {
		t.Errorf("%d bytes each", each)
	} else {
		t.Logf("%d bytes each, client included", each)
	}
}
