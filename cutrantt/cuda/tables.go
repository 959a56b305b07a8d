package cuda

// table is a table of twiddle factors on the device: stride factors for each
// modulus of the ring.
type table struct {
	at      pointer
	entries int
	stride  uint64
}

// twiddles is the table t[k] = psi^brv(k) with at least n entries (n a power of
// two, at most N), computed on the device when it is first needed.
func (r *ring) twiddles(n int) (table, error) {
	if r.plain.entries >= n {
		return r.plain, nil
	}
	n = max(n, 256)
	moduli := len(r.check.Moduli())
	at, err := r.pool.get(2 * n * moduli)
	if err != nil {
		return table{}, err
	}
	t := table{at, n, uint64(n)}
	err = launch(
		r, "table_plain", n/256, moduli, 256, 0, tableArgs{args: args{dst: at}, stride: t.stride, entries: uint32(n)},
	)
	if err == nil {
		err = r.launcher.Flush() // a table is kept only if it is queued: a graph could still be refused
	}
	if err != nil {
		r.pool.put(at, 2*n*moduli)
		return table{}, err
	}
	if old := r.plain; old.entries > 0 {
		r.pool.put(old.at, 2*old.entries*moduli)
	}
	r.plain = t
	return t, nil
}

// ordered is the table of a plan, in the order of its passes.
func (r *ring) ordered(p plan) (table, error) {
	if t, ok := r.passes[p]; ok {
		return t, nil
	}
	n, moduli := 1<<p.log, len(r.check.Moduli())
	plain, err := r.twiddles(n)
	if err != nil {
		return table{}, err
	}
	t := table{entries: n, stride: uint64(n) + 2}
	if t.at, err = r.pool.get(2 * int(t.stride) * moduli); err != nil {
		return table{}, err
	}
	err = launch(r, "table_passes", (n+255)/256, moduli, 256, 0, passTableArgs{
		args:   args{dst: t.at, tw: plain.at, ts: plain.stride},
		stride: t.stride, logColumn: uint32(p.log), first: uint32(p.first), each: uint32(p.each),
	})
	if err == nil {
		// Kernels read tables before those ahead of them have ended.
		err = r.backend.drv.Wait(r.pool.stream)
	}
	if err != nil {
		r.pool.put(t.at, 2*int(t.stride)*moduli)
		return table{}, err
	}
	r.passes[p] = t
	return t, nil
}
