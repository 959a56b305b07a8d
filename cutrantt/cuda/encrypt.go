package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/hencedge/hencedge/cutrantt"
	"github.com/hencedge/hencedge/cutrantt/internal/check"
	"github.com/hencedge/hencedge/internal/crew"
)

var _ cutrantt.Encrypting = (*ring)(nil)

// job mirrors struct Job of kernels/args.cuh.
type job struct {
	seed, mask [32]byte
	message    pointer
	dst        pointer
	ds         uint64
	unused     uint64
}

// encryption is what the messages of one call have in common.
type encryption struct {
	kinds     int // transforms of a message and limb: 3, or 1 in seeded encryption
	product   string
	n2        int
	limbs     []int
	key       tensor // (b, a), or s
	of        any    // *operand or *cutrantt.Batch: where key lies, which is only an address
	have      []int  // limbs of key
	positions []int  // of limbs in have
	labels    cutrantt.EncryptionLabels
	inPlace   bool                // the messages stay in the staging buffer, which the GPU reads
	embedding *cutrantt.Embedding // nil if messages are coefficients
	count     int                 // numbers of a message: N, or the most values
}

// group is how many limbs of k messages are transformed in one launch.
func (e *encryption) group(n, k int) int {
	group := max(1, min(len(e.limbs), transformBytes/(4*e.kinds*n*k)))
	groups := (len(e.limbs) + group - 1) / group
	return (len(e.limbs) + groups - 1) / groups
}

// each is the bytes of a job and its message on their way to the device.
func (e *encryption) each() int { return int(unsafe.Sizeof(job{})) + 8*e.count }

// behind is the words behind the jobs' records on the device for each message of a ring of
// degree n: its coefficients, and as much again for their embedding.
func (e *encryption) behind(n int) int {
	switch {
	case e.inPlace:
		return 0
	case e.embedding != nil:
		return 4 * n
	}
	return 2 * n
}

// largeBound is where a coefficient plus its noise may leave 64 bits.
const largeBound = 1 << 62

func (r *ring) EncryptPublic(
	pk cutrantt.Operand, limbs []int, labels cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
) ([]*cutrantt.Batch, error) {
	e, err := r.publicEncryption(pk, limbs, labels, jobs)
	if err != nil {
		return nil, err
	}
	return r.encryptAll(e, jobs)
}

func (r *ring) EncryptSeeded(
	s *cutrantt.Batch, limbs []int, labels cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
) ([]*cutrantt.Batch, error) {
	e, err := r.seededEncryption(s, limbs, labels, jobs)
	if err != nil {
		return nil, err
	}
	return r.encryptAll(e, jobs)
}

// publicEncryption checks key and jobs.
func (r *ring) publicEncryption(
	pk cutrantt.Operand, limbs []int, labels cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
) (*encryption, error) {
	o, ok := pk.(*operand)
	if !ok || o == nil || o.ring != r.base() || o.mem.Len() == 0 {
		return nil, fmt.Errorf("%w: operand of another ring or backend, or released", cutrantt.ErrForeign)
	}
	if o.shape.Polys != 2 {
		return nil, fmt.Errorf("%w: a public key of %d polynomials, not 2", cutrantt.ErrShape, o.shape.Polys)
	}
	key, ok := o.factors()
	if !ok {
		return nil, fmt.Errorf("%w: encryption in few kernels with method %v", cutrantt.ErrNotSupported, r.method)
	}
	e := &encryption{
		kinds: 3, product: "public", n2: int(o.shape.Domain.N2), limbs: limbs, key: key, of: o, have: o.shape.Limbs,
		labels: labels,
	}
	return e, r.checkEncryption(e, jobs)
}

// seededEncryption checks key and jobs.
func (r *ring) seededEncryption(
	s *cutrantt.Batch, limbs []int, labels cutrantt.EncryptionLabels, jobs []cutrantt.Encryption,
) (*encryption, error) {
	if err := r.check.Single(s); err != nil {
		return nil, err
	}
	if err := check.NTT(s); err != nil {
		return nil, err
	}
	for i, j := range jobs {
		if j.Mask == nil {
			return nil, fmt.Errorf("%w: message %d has no public seed", cutrantt.ErrRange, i)
		}
	}
	e := &encryption{
		kinds: 1, product: "seeded", n2: int(s.Domain().N2), limbs: limbs, key: r.tensor(s), of: s, have: s.Limbs(),
		labels: labels,
	}
	return e, r.checkEncryption(e, jobs)
}

// checkEncryption checks the jobs and completes e.
func (r *ring) checkEncryption(e *encryption, jobs []cutrantt.Encryption) error {
	if m := r.method; m == cutrantt.MethodSchoolbook || m == cutrantt.MethodToomCook4 {
		return fmt.Errorf("%w: encryption in few kernels with method %v", cutrantt.ErrNotSupported, m)
	}
	log := log2(r.n / e.n2)
	if _, split := planFor(log, r.backend.shared); split != 0 || log > mostEncryptLog {
		return fmt.Errorf("%w: encryption in few kernels with columns of %d", cutrantt.ErrNotSupported, r.n/e.n2)
	}
	e.inPlace = r.backend.mapped
	if err := r.check.Shape(max(2*len(jobs), 1), e.limbs, cutrantt.NTT(e.n2)); err != nil {
		return err
	}
	for _, l := range e.limbs {
		at := slices.Index(e.have, l)
		if at < 0 {
			return fmt.Errorf("%w: the key has no limb for modulus %d", cutrantt.ErrShape, l)
		}
		e.positions = append(e.positions, at)
	}
	e.count = r.n
	if len(jobs) > 0 && jobs[0].Embedding != nil {
		e.count = 0
		if err := r.checkEmbedding(e, jobs); err != nil {
			return err
		}
	}
	for i, j := range jobs {
		if e.embedding == nil && (len(j.Message) != r.n || j.Embedding != nil) {
			return fmt.Errorf(
				"%w: message %d has %d coefficients for degree %d", cutrantt.ErrShape, i, len(j.Message), r.n,
			)
		}
		if j.Seed == nil {
			return fmt.Errorf("%w: message %d has no seed", cutrantt.ErrRange, i)
		}
		if !(j.Bound < largeBound) {
			return fmt.Errorf(
				"%w: encryption in few kernels of coefficients up to %g", cutrantt.ErrNotSupported, j.Bound,
			)
		}
	}
	return nil
}

// result allocates a ciphertext of any content. It is called by exec.
func (r *ring) result(e *encryption) (*cutrantt.Batch, error) {
	m, err := r.allocateKind(2*len(e.limbs)*r.n, r.backend.mapped)
	if err != nil {
		return nil, err
	}
	return cutrantt.MakeBatch(cutrantt.Shape{Polys: 2, Limbs: e.limbs, Domain: cutrantt.NTT(e.n2)}, r.n, m), nil
}

// encryptAll makes the results of checked jobs and encrypts window by window.
func (r *ring) encryptAll(e *encryption, jobs []cutrantt.Encryption) ([]*cutrantt.Batch, error) {
	defer runtime.KeepAlive(e.of)
	out := make([]*cutrantt.Batch, len(jobs))
	err := r.exec(func() error { return r.encryptWindows(e, jobs, out) })
	if err != nil {
		for _, b := range out {
			if b != nil {
				r.Free(b)
			}
		}
		return nil, err
	}
	return out, nil
}

// encryptWindows encrypts the messages window by window, and makes out, the results.
func (r *ring) encryptWindows(e *encryption, jobs []cutrantt.Encryption, out []*cutrantt.Batch) (err error) {
	if len(jobs) == 0 {
		return nil
	}
	drv, st := r.backend.drv, &r.backend.staging
	each, window := e.each(), windowBytes
	if e.embedding != nil { // values take less than the coefficients that the device makes of them
		each, window = max(each, int(unsafe.Sizeof(job{}))+4*r.n), chunk
	}
	windows := (len(jobs) + max(1, window/each) - 1) / max(1, window/each)
	most := (len(jobs) + windows - 1) / windows
	var buffers []*buffer
	defer func() { // the messages leave the host's memory in any case
		if err != nil {
			_ = drv.Wait(r.pool.stream) // a copy may be under way
		}
		for _, b := range buffers {
			if err == nil {
				err = r.done(b)
			}
			used := b.bytes[:most*each]
			const piece = 64 << 10
			crew.Do((len(used)+piece-1)/piece, crew.Most, func(i int) {
				clear(used[i*piece : min((i+1)*piece, len(used))])
			})
			st.put(b, 0)
		}
	}()
	for i := 0; len(jobs) > 0; i++ {
		if i < 2 {
			b, err := st.get()
			if err != nil {
				return err
			}
			buffers = append(buffers, b)
		} else if err := drv.WaitEvent(buffers[i%2].done); err != nil {
			return err
		}
		k := min(most, len(jobs))
		if err := r.encryptWindow(e, jobs[:k], out[:k], buffers[i%2]); err != nil {
			return err
		}
		jobs, out = jobs[k:], out[k:]
	}
	return nil
}

// secrets is device memory that holds secrets while a window is encrypted.
type secrets struct {
	at    pointer
	words int
}

// encryptWindow queues one window: the messages' way to the device, and their
// encryption group of limbs by group.
func (r *ring) encryptWindow(e *encryption, jobs []cutrantt.Encryption, out []*cutrantt.Batch, b *buffer) (err error) {
	drv, s, k := r.backend.drv, r.pool.stream, len(jobs)
	group := e.group(r.n, k)
	size := int(unsafe.Sizeof(job{}))
	parts := [3]secrets{
		{words: k * (size/4 + e.behind(r.n))}, {words: k * 10 * r.n / 4}, {words: e.kinds * k * group * r.n},
	}
	defer func() {
		for _, p := range parts {
			if p.at == 0 {
				continue
			}
			if err != nil { // the last kernel has not wiped it
				err = errors.Join(err, drv.Fill(p.at, 0, p.words, s))
			}
			r.pool.put(p.at, p.words)
		}
	}()
	for i := range parts {
		if parts[i].at, err = r.pool.get(parts[i].words); err != nil {
			return err
		}
	}
	input := parts[0].at
	if err := r.write(e, jobs, out, b, input); err != nil {
		return err
	}
	sent := k * e.each()
	if e.inPlace {
		sent = k * size // the records, which all blocks read
	}
	err = drv.CopyIn(input, b.bytes[:sent], s)
	if err == nil && !e.inPlace {
		err = drv.Record(b.done, s)
	}
	if err != nil {
		return err
	}
	if err = r.encryptQueued(e, k, input, parts[1], parts[2], group, input); err != nil {
		return err
	}
	err = r.launcher.Flush() // here, as what cannot be queued wipes nothing
	if err == nil && e.inPlace {
		err = drv.Record(b.done, s)
	}
	return err
}

// write makes the results of a window, and writes records and messages to b, from where they go to input. Helpers
// copy messages meanwhile.
func (r *ring) write(e *encryption, jobs []cutrantt.Encryption, out []*cutrantt.Batch, b *buffer, input pointer) error {
	k, size := len(jobs), int(unsafe.Sizeof(job{}))
	copies := crew.Begin(k, min(8*e.count*k>>16, crew.Most), func(i int) {
		to := b.bytes[k*size+8*e.count*i:][:8*e.count]
		clear(to[copy(to, bytesOf(jobs[i].Message)):])
	})
	defer copies.Finish()
	messages := input + pointer(k*size)
	if e.inPlace {
		messages = b.pointer() + pointer(k*size)
	}
	records := unsafe.Slice((*job)(unsafe.Pointer(&b.bytes[0])), k)
	for i, j := range jobs {
		result, err := r.result(e)
		if err != nil {
			return err
		}
		out[i] = result
		t := r.tensor(result)
		records[i] = job{seed: *j.Seed, message: messages + pointer(8*r.n*i), dst: t.at, ds: t.stride}
		if j.Mask != nil {
			records[i].mask = *j.Mask
		}
	}
	return nil
}

// encryptQueued queues the kernels for k jobs whose records are at input. The last one
// has its records at last, and wipes everything secret: the seeds of these, what lies
// behind them where the messages do, small and mid.
func (r *ring) encryptQueued(e *encryption, k int, input pointer, small, mid secrets, group int, last pointer) error {
	logN2 := uint32(log2(e.n2))
	l := e.labels
	return r.replayed(r.backend.graphs == graphsAuto && k == 1 && r.logN <= mostGraphLog, func() error {
		if e.embedding != nil {
			if err := r.embed(e, k, input+pointer(k*int(unsafe.Sizeof(job{})))); err != nil {
				return err
			}
		}
		err := launch(r, "encrypt_small", e.kinds*r.n/1024, k, 128, 0, smallArgs{
			args: args{dst: small.at, logN2: logN2}, jobs: input, labelE0: l.E0, labelV: l.V, labelE1: l.E1,
		})
		for first := 0; first < len(e.limbs) && err == nil; first += group {
			end, records := min(first+group, len(e.limbs)), input
			if end == len(e.limbs) {
				records = last
			}
			err = r.encryptGroup(e, k, records, small, mid, first, end)
		}
		return err
	})
}

// encryptGroup queues the transforms and products of limbs [first, last); with the last
// ones the records at input and all that is secret are wiped.
func (r *ring) encryptGroup(e *encryption, k int, input pointer, small, mid secrets, first, last int) error {
	log := log2(r.n / e.n2)
	p, _ := planFor(log, r.backend.shared)
	ordered, err := r.ordered(p)
	if err != nil {
		return err
	}
	plain, err := r.twiddles(r.n / e.n2)
	if err != nil {
		return err
	}
	limbs, err := r.list(e.limbs[first:last])
	if err != nil {
		return err
	}
	at, err := r.list(e.positions[first:last])
	if err != nil {
		return err
	}
	stride, logN2 := uint64((last-first)*r.n), uint32(log2(e.n2))
	blocks := e.kinds * k * (r.n >> p.block)
	err = launch(r, p.name("encrypt_forward"), blocks, last-first, p.threads(), p.shared(), expandArgs{
		args: args{
			dst: mid.at, ds: stride, a: small.at, limbs: limbs, tw: ordered.at, ts: ordered.stride, logN2: logN2,
		},
		transforms: uint32(e.kinds),
	})
	if err != nil {
		return err
	}
	a := encryptArgs{
		args: args{a: mid.at, as: stride, limbs: limbs, tw: plain.at, ts: plain.stride, logN2: logN2},
		jobs: input, key: e.key.at, keyStride: e.key.stride, at: at,
		first: uint32(first), maskLabel: e.labels.Mask,
	}
	if last == len(e.limbs) {
		a.last = uint32(k)
		a.small, a.smallSize = small.at, uint64(small.words/4)
		a.transformSize = uint64(mid.words / 4)
		a.messageSize = uint64(k * e.behind(r.n) / 4) // the host wipes those in place
	}
	threads := 128
	blocks = k * max(r.n/e.n2/(128*neighbours(e.n2)), 1)
	if e.kinds == 1 {
		blocks, threads = k*max(r.n/seededTile, 1), seededThreads
	}
	return launch(r, productName(e.product, e.n2, log), blocks, last-first, threads, 0, a)
}

// productName is the kernel of the last step; for 16 columns, of one length.
func productName(product string, n2, log int) string {
	if n2 == 16 {
		return fmt.Sprintf("encrypt_%s16_%d", product, log)
	}
	return fmt.Sprintf("encrypt_%s_%d", product, n2)
}
