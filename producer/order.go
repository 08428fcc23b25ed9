package producer

// order lists the producers by where their newest batch ends, lowest first. As
// records are observed in offset order, a batch that completes ends highest of
// all: keeping the order is moving its producer to the end.
type order struct {
	oldest, newest *window
}

// insertAfter puts w behind prev, or first when prev is nil or left the order.
func (o *order) insertAfter(prev, w *window) {
	if prev != nil && !prev.linked {
		prev = nil
	}
	w.older, w.linked = prev, true
	if prev == nil {
		w.newer, o.oldest = o.oldest, w
	} else {
		w.newer, prev.newer = prev.newer, w
	}
	if w.newer == nil {
		o.newest = w
	} else {
		w.newer.older = w
	}
}

func (o *order) remove(w *window) {
	if w.older == nil {
		o.oldest = w.newer
	} else {
		w.older.newer = w.newer
	}
	if w.newer == nil {
		o.newest = w.older
	} else {
		w.newer.older = w.older
	}
	w.older, w.newer, w.linked = nil, nil, false
}
