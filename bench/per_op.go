package bench

// WithoutNull splits results whose last side ran on a null device from that side, and
// gives what its rounds took per append, by point.
func (r Results) WithoutNull() (rest Results, null [][]float64) {
	last := len(r.Sides) - 1
	rest = Results{Points: r.Points, Sides: r.Sides[:last], Rounds: r.Rounds}
	for _, t := range r.Taken {
		if t.Side != last {
			rest.Taken = append(rest.Taken, t)
		}
	}
	for point := range r.Points {
		var micros []float64
		for _, t := range r.Of(point, last) {
			micros = append(micros, t.Row.CPUMicrosPerAppend)
		}
		null = append(null, micros)
	}
	return rest, null
}

// PerOp gives, for each round of a point on a side, the processor time in microseconds
// of one operation of the device: what an append took more than on the null device,
// by the operations of an append. It is 0 where nothing more was taken.
func (r Results) PerOp(point, side int, null []float64) []float64 {
	var micros []float64
	for i, t := range r.Of(point, side) {
		more, ops := t.Row.CPUMicrosPerAppend-null[i], t.Row.OpsPerAppend
		if more <= 0 || ops <= 0 {
			more, ops = 0, 1
		}
		micros = append(micros, more/ops)
	}
	return micros
}
