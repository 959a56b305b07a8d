package driver

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"
)

// mostGraphs is how many graphs a launcher keeps; programs use few. mostNodes is how
// many launches wait at most: then they are queued.
const (
	mostGraphs = 64
	mostNodes  = 4096
)

// node is a kernel of a graph, without its arguments.
type node struct {
	f                        Function
	x, y, threads, shared, n uint32 // n bytes of arguments
	none                     uint32 // 0: the structure has no padding, so that its bytes can be a key
}

// waiting are launches that Release queues together.
type waiting struct {
	on     bool
	nodes  []node
	args   []byte // of all nodes, each from a multiple of 16 on
	graphs map[string]*Graph
	mark   Event // to be recorded before what is queued next; 0: none
	queued int   // since Mark: graphs, and launches that waited alone
	parted bool  // since Hold: the driver was called for something else in the stream, or queued something
}

// next is where the arguments of the node after n begin, if its own begin at before.
func (n node) next(before int) int { return before + (int(n.n)+15)&^15 }

func (w *waiting) add(n node, args unsafe.Pointer) {
	w.nodes = append(w.nodes, n)
	w.args = append(w.args, unsafe.Slice((*byte)(args), n.n)...)
	for len(w.args)%16 != 0 {
		w.args = append(w.args, 0)
	}
}

// key names what a graph is made of.
func (w *waiting) key() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&w.nodes[0])), len(w.nodes)*int(unsafe.Sizeof(node{})))
}

// Graph is an executable graph: a chain of kernels.
type Graph struct {
	graph, exec uintptr
	nodes       []uintptr
	args        []byte // those that the nodes have now
}

// nodeParams mirrors CUDA_KERNEL_NODE_PARAMS_v2.
type nodeParams struct {
	f           Function
	grid, block [3]uint32
	shared      uint32
	params      *unsafe.Pointer
	extra       uintptr
	kernel      uintptr
	context     uintptr
}

// edgeData mirrors CUgraphEdgeData; an edge of type 1 from port 1 is a programmatic
// dependent launch (CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC,
// CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC).
type edgeData struct {
	from, to, kind byte
	_              [5]byte
}

// Graphs is nil if the driver has graphs whose kernels can overlap, and else says
// what it lacks.
func (d *Driver) Graphs() error {
	for s := symGraphCreate; s < symbols; s++ {
		if d.entry[s] == 0 {
			return fmt.Errorf("the CUDA driver has no %s, update it", names[s])
		}
	}
	return nil
}

// Hold makes launches wait. Two and more are then queued as one graph, by Release or
// by the next call of the driver that names the stream, so that work stays in order.
// A sequence of kernels that was there before, whatever their arguments, becomes the
// same graph. Ask Graphs first.
func (l *Launcher) Hold() {
	l.waiting.on, l.waiting.parted = true, false
	l.drv.mu.Lock()
	defer l.drv.mu.Unlock()
	if l.drv.held == nil {
		l.drv.held = make(map[Stream]*Launcher)
	}
	l.drv.held[l.stream] = l
}

// Release queues what waits; later launches do not wait. After an error nothing
// waits, and some of it may be queued.
func (l *Launcher) Release() error {
	l.drv.mu.Lock()
	delete(l.drv.held, l.stream)
	l.drv.mu.Unlock()
	err := l.Flush()
	l.waiting.end()
	return err
}

// Drop is Release where the driver is not to be called any more: what waits is lost.
func (l *Launcher) Drop() {
	l.drv.mu.Lock()
	delete(l.drv.held, l.stream)
	l.drv.mu.Unlock()
	l.waiting.empty()
	l.waiting.end()
}

// Record is Drop, but what waits becomes a graph. It fails if nothing waits, or if the stream was given anything else
// since Hold. Destroy gives the graph back.
func (l *Launcher) Record() (*Graph, error) {
	defer l.Drop()
	if l.waiting.parted || len(l.waiting.nodes) == 0 {
		return nil, errParted
	}
	return l.build()
}

var errParted = errors.New("not only kernels, or too many")

// Replay queues g in a stream, behind what waits there.
func (d *Driver) Replay(g *Graph, s Stream) error {
	if err := d.flush(s); err != nil {
		return err
	}
	return d.check(symGraphLaunch, call(d.entry[symGraphLaunch], g.exec, uintptr(s)))
}

// Destroy gives g back; if it runs it ends first.
func (d *Driver) Destroy(g *Graph) (err error) {
	for s, h := range map[symbol]uintptr{symGraphExecDestroy: g.exec, symGraphDestroy: g.graph} {
		err = errors.Join(err, d.check(s, call(d.entry[s], h)))
	}
	return err
}

// Kernels is how many kernels g has.
func (g *Graph) Kernels() int { return len(g.nodes) }

// Mark has e recorded before the next graph is queued, or launch that waited alone,
// and counts those from here on. Release forgets an event that is not recorded yet.
func (l *Launcher) Mark(e Event) { l.waiting.mark, l.waiting.queued = e, 0 }

// Queued is how often launches that waited were queued since Mark.
func (l *Launcher) Queued() int { return l.waiting.queued }

// begin is called before something that waited is queued.
func (l *Launcher) begin() error {
	l.waiting.queued++
	l.waiting.parted = true
	e := l.waiting.mark
	if e == 0 {
		return nil
	}
	l.waiting.mark = 0
	return l.drv.record(e, l.stream)
}

// end is called when nothing waits any more.
func (w *waiting) end() {
	w.on, w.mark = false, 0
	if cap(w.args) > 1<<16 { // few need so much
		w.nodes, w.args = nil, nil
	}
}

// empty forgets what waits.
func (w *waiting) empty() {
	clear(w.args) // there may have been a seed
	w.nodes, w.args = w.nodes[:0], w.args[:0]
}

// Kept is the number of graphs that l keeps.
func (l *Launcher) Kept() int { return len(l.waiting.graphs) }

// flush queues what waits in s.
func (d *Driver) flush(s Stream) error {
	d.mu.Lock()
	l := d.held[s]
	d.mu.Unlock()
	if l == nil {
		return nil
	}
	l.waiting.parted = true
	return l.Flush()
}

// Flush queues what waits.
func (l *Launcher) Flush() (err error) {
	w := &l.waiting
	defer w.empty()
	if len(w.nodes) < 2 {
		for _, n := range w.nodes {
			if err = l.begin(); err != nil {
				return err
			}
			err = l.launch(
				n.f, int(n.x), int(n.y), int(n.threads), int(n.shared), unsafe.Pointer(unsafe.SliceData(w.args)),
			)
		}
		return err
	}
	g, ok := w.graphs[string(w.key())]
	if !ok {
		if len(w.graphs) >= mostGraphs {
			if err := l.Forget(); err != nil {
				return err
			}
		}
		if g, err = l.build(); err != nil {
			return err
		}
		if w.graphs == nil {
			w.graphs = make(map[string]*Graph)
		}
		w.graphs[string(w.key())] = g
	} else if err := l.update(g); err != nil {
		return err
	}
	if err := l.begin(); err != nil {
		return err
	}
	return l.drv.check(symGraphLaunch, call(l.drv.entry[symGraphLaunch], g.exec, uintptr(l.stream)))
}

// each calls f with every node and where its arguments are.
func (w *waiting) each(f func(i int, n node, from, to int) error) error {
	at := 0
	for i, n := range w.nodes {
		end := n.next(at)
		if err := f(i, n, at, end); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// nodeParams are the parameters of a node with the arguments at at of what waits, in l.
func (l *Launcher) nodeParams(n node, at int) *nodeParams {
	l.params[0] = unsafe.Add(unsafe.Pointer(unsafe.SliceData(l.waiting.args)), at)
	l.node = nodeParams{
		f: n.f, grid: [3]uint32{n.x, n.y, 1}, block: [3]uint32{n.threads, 1, 1}, shared: n.shared, params: &l.params[0],
	}
	return &l.node
}

// build makes the graph of what waits.
func (l *Launcher) build() (*Graph, error) {
	d, g := l.drv, &Graph{args: bytes.Clone(l.waiting.args)}
	if err := d.check(symGraphCreate, call(d.entry[symGraphCreate], uintptr(unsafe.Pointer(&g.graph)), 0)); err != nil {
		return nil, err
	}
	err := l.waiting.each(func(i int, n node, from, _ int) error {
		var at uintptr
		err := d.check(symGraphAddKernelNode, call(
			d.entry[symGraphAddKernelNode], uintptr(unsafe.Pointer(&at)), g.graph, 0, 0,
			uintptr(unsafe.Pointer(l.nodeParams(n, from))),
		))
		if err != nil {
			return err
		}
		g.nodes = append(g.nodes, at)
		if i == 0 {
			return nil
		}
		var edge edgeData
		if l.config.count > 0 { // as launches that do not wait
			edge = edgeData{from: 1, kind: 1}
		}
		return d.check(symGraphAddDependencies, call(
			d.entry[symGraphAddDependencies], g.graph, uintptr(unsafe.Pointer(&g.nodes[i-1])),
			uintptr(unsafe.Pointer(&g.nodes[i])), uintptr(unsafe.Pointer(&edge)), 1,
		))
	})
	if err == nil {
		err = d.check(
			symGraphInstantiate, call(d.entry[symGraphInstantiate], uintptr(unsafe.Pointer(&g.exec)), g.graph, 0),
		)
	}
	if err != nil {
		_ = d.check(symGraphDestroy, call(d.entry[symGraphDestroy], g.graph))
		return nil, err
	}
	return g, nil
}

// update gives the nodes of g the arguments that wait, where they differ; launches of
// g that are queued keep theirs.
func (l *Launcher) update(g *Graph) error {
	d, w := l.drv, &l.waiting
	return w.each(func(i int, n node, from, to int) error {
		if bytes.Equal(g.args[from:to], w.args[from:to]) {
			return nil
		}
		err := d.check(symGraphExecKernelNodeSetParams, call(
			d.entry[symGraphExecKernelNodeSetParams], g.exec, g.nodes[i],
			uintptr(unsafe.Pointer(l.nodeParams(n, from))),
		))
		if err == nil {
			copy(g.args[from:to], w.args[from:to])
		}
		return err
	})
}

// Forget destroys the graphs that l keeps; those that run end first.
func (l *Launcher) Forget() (err error) {
	for key, g := range l.waiting.graphs {
		delete(l.waiting.graphs, key)
		err = errors.Join(err, l.drv.Destroy(g))
	}
	return err
}
