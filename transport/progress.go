package transport

// Progress says how far an object has come: Unknown, Partial with the chunks
// that are here, or Working when it is complete and was handed on. An incomplete
// object that is cut into another number of chunks than total is dropped, since
// its pieces are of no use to a sender that changed its chunk size.
func (r *Receiver) Progress(topic string, id [32]byte, total, size int) ReceiptItem {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := partKey{topic, id}
	out := ReceiptItem{Object: id, Outcome: Unknown}
	if r.done[key] != nil {
		out.Outcome = Working
		return out
	}
	p := r.parts[key]
	if p == nil {
		return out
	}
	if p.total != total || p.size != size {
		r.drop(p)
		return out
	}
	out.Outcome, out.Total, out.Have = Partial, total, make([]byte, (total+7)/8)
	for i := range p.pieces {
		out.Have[i/8] |= 1 << (i % 8)
	}
	p.last = r.limits.Now() // somebody still wants it
	r.topics[topic].idle.MoveToBack(p.elem)
	return out
}

// Forget lets a finished object be delivered again, for a receiver that could
// not keep it.
func (r *Receiver) Forget(topic string, id [32]byte) { r.forget(partKey{topic, id}) }
