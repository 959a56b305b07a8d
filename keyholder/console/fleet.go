package console

import (
	"cmp"
	"encoding/hex"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hencedge/hencedge/keyholder"
)

// seriesKey names what results are about.
type seriesKey struct{ Program, Device string }

// fleet is the newest result of each series, and the devices that they are about. With 10,000 devices most of the
// page's memory is here, so it keeps what rows and cards are made of, not them.
type fleet struct {
	approvals func() ([]keyholder.Approval, error)
	tally     *keyholder.Tally

	mu      sync.Mutex
	newest  map[seriesKey]*newest
	devices map[string]*seen
	texts   map[string]string   // each text that many series or boards share, once
	known   map[string][]string // the devices of a program without a class, by evaluator and program
	asked   time.Time           // when the approvals were read last
	words   words
}

// newest is the newest result of a series, without what its key says.
type newest struct {
	evaluator, unit         string
	start, end              int64   // Unix nanoseconds
	value, bound            float64 // the first value; NaN: none
	values                  int
	samples, epoch, devices uint32
	object                  [32]byte
}

func newNewest(r *keyholder.Result) *newest {
	n := &newest{evaluator: r.Evaluator, unit: r.Unit, start: r.Start.UnixNano(), end: r.End.UnixNano(),
		value: math.NaN(), bound: r.Bound, values: len(r.Values), samples: r.Samples, epoch: r.Epoch, object: r.ID}
	if len(r.Values) > 0 {
		n.value = r.Values[0]
	}
	if r.Fleet != nil {
		n.devices = r.Fleet.Devices
	}
	return n
}

// live returns the result as lists tell it.
func (n *newest) live(key seriesKey) liveResult {
	return liveResult{Program: key.Program, Device: key.Device, Evaluator: n.evaluator, Unit: n.unit,
		Start: millis(time.Unix(0, n.start)), End: millis(time.Unix(0, n.end)), StartNS: n.start,
		Value: finite(n.value), Values: n.values, Bound: finite(n.bound), Samples: n.samples, Epoch: n.epoch,
		Devices: n.devices, Object: hex.EncodeToString(n.object[:])}
}

// seen is what results tell of a device.
type seen struct {
	programs []string // sorted; rows have the list too, so it is never changed
	worker   string
	last     float64 // end of its newest window, Unix milliseconds
	delay    float64 // from there to the arrival of its result, milliseconds; NaN: it was there at the start
	results  uint64
	epoch    uint32
}

func (s *seen) row(name string) device {
	return device{Name: name, Programs: s.programs, Last: s.last, Delay: finite(s.delay), Results: s.results,
		Epoch: s.epoch, Worker: s.worker}
}

// shared returns a text as it was kept first. It needs mu.
func (f *fleet) shared(text string) string {
	if kept, known := f.texts[text]; known {
		return kept
	}
	if f.texts == nil {
		f.texts = map[string]string{}
	}
	if len(f.texts) < maxShared {
		f.texts[text] = text
	}
	return text
}

// maxShared bounds the texts that are kept once.
const maxShared = 1 << 10

// device is a row of the table.
type device struct {
	Name     string   `json:"device"`
	Programs []string `json:"programs"`
	Last     float64  `json:"last"`  // end of its newest window, Unix milliseconds
	Delay    *float64 `json:"delay"` // from there to the arrival of its result, milliseconds
	Results  uint64   `json:"results"`
	Gaps     uint64   `json:"gaps"`    // in the times of its results
	Missing  float64  `json:"missing"` // how long they are together, milliseconds
	Late     uint64   `json:"late"`    // results that came out of order or again
	Epoch    uint32   `json:"epoch"`
	Worker   string   `json:"evaluator"`

	// What an enrolled board says of itself.
	Enrolled    bool     `json:"enrolled"`
	State       string   `json:"state"` // "" before it said anything
	Version     string   `json:"version"`
	Certificate *float64 `json:"certificate"` // end of its client certificate, Unix milliseconds
}

// maxSeries bounds the series that are remembered: evaluators name the devices.
const maxSeries = 1 << 16

// note takes a result. arrived is zero for one that the database had at the start.
func (f *fleet) note(r *keyholder.Result, arrived time.Time) {
	names := f.devicesOf(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.newest == nil {
		f.newest, f.devices = map[seriesKey]*newest{}, map[string]*seen{}
	}
	key := seriesKey{f.shared(r.Program), r.Device}
	old := f.newest[key]
	if old == nil && len(f.newest) >= maxSeries {
		return
	}
	if old == nil || r.Start.UnixNano() >= old.start {
		n := newNewest(r)
		n.evaluator, n.unit = f.shared(n.evaluator), f.shared(n.unit)
		f.newest[key] = n
	}
	for _, name := range names {
		d := f.devices[name]
		if d == nil {
			d = &seen{delay: math.NaN()}
			f.devices[name] = d
		}
		if i, found := slices.BinarySearch(d.programs, r.Program); !found {
			d.programs = slices.Insert(slices.Clip(d.programs), i, key.Program)
		}
		if end := millis(r.End); end >= d.last {
			d.last, d.epoch, d.worker = end, r.Epoch, f.shared(r.Evaluator)
			if !arrived.IsZero() {
				d.delay = millis(arrived) - end
			}
		}
		if !arrived.IsZero() {
			d.results++
		}
	}
}

// devicesOf returns the devices that a result is about. Those of a program without a class
// stand in its approval.
func (f *fleet) devicesOf(r *keyholder.Result) []string {
	if r.Device != "" {
		return []string{r.Device}
	}
	if r.Fleet != nil {
		return nil
	}
	id := r.Evaluator + "/" + r.Program
	f.mu.Lock()
	names, found := f.known[id]
	ask := !found && time.Since(f.asked) > approvalsEvery
	if ask {
		f.asked = time.Now()
	}
	f.mu.Unlock()
	if !ask {
		return names
	}
	list, err := f.approvals()
	if err != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = map[string][]string{}
	for i := range list {
		id, of := list[i].Evaluator+"/"+list[i].Program.Name, map[string]bool{}
		for _, in := range list[i].Program.Inputs {
			if in.Device != "" {
				of[in.Device] = true
			}
		}
		f.known[id] = slices.Sorted(maps.Keys(of))
	}
	return f.known[id]
}

// approvalsEvery is how often the approvals are read at most.
const approvalsEvery = 5 * time.Second

// programCard is what a card shows of a program.
type programCard struct {
	Program   string     `json:"program"`
	Evaluator string     `json:"evaluator"`
	Unit      string     `json:"unit"`
	Devices   int        `json:"devices"` // of its class; 0: it has none
	Device    string     `json:"device"`  // of the class: the first one
	Newest    liveResult `json:"newest"`  // of that device
}

// cards returns the programs, sorted.
func (f *fleet) cards() []programCard {
	f.mu.Lock()
	defer f.mu.Unlock()
	cards := map[string]*programCard{}
	for key, n := range f.newest {
		p := cards[key.Program]
		if p == nil {
			p = &programCard{Program: key.Program, Device: key.Device, Newest: n.live(key)}
			cards[key.Program] = p
		}
		if key.Device != "" {
			p.Devices++
		}
		if key.Device <= p.Device {
			p.Device, p.Newest = key.Device, n.live(key)
		}
	}
	out := make([]programCard, 0, len(cards))
	for _, p := range cards {
		p.Unit, p.Evaluator = p.Newest.Unit, p.Newest.Evaluator
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b programCard) int { return cmp.Compare(a.Program, b.Program) })
	return out
}

// search returns devices of a program whose names hold a text, sorted, at most most of them,
// with the newest result of each.
func (f *fleet) search(program, text string, most int) []liveResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []seriesKey
	for key := range f.newest {
		if key.Program == program && strings.Contains(strings.ToLower(key.Device), strings.ToLower(text)) {
			found = append(found, key)
		}
	}
	slices.SortFunc(found, func(a, b seriesKey) int { return cmp.Compare(a.Device, b.Device) })
	out := []liveResult{}
	for _, key := range found[:min(len(found), most)] {
		out = append(out, f.newest[key].live(key))
	}
	return out
}

// orders are the columns that the table can be sorted by.
var orders = map[string]func(a, b *device) int{
	"device":  func(a, b *device) int { return cmp.Compare(a.Name, b.Name) },
	"last":    func(a, b *device) int { return cmp.Compare(a.Last, b.Last) },
	"delay":   func(a, b *device) int { return cmp.Compare(orLeast(a.Delay), orLeast(b.Delay)) },
	"results": func(a, b *device) int { return cmp.Compare(a.Results, b.Results) },
	"gaps":    func(a, b *device) int { return cmp.Compare(a.Gaps, b.Gaps) },
	"missing": func(a, b *device) int { return cmp.Compare(a.Missing, b.Missing) },
	"late":    func(a, b *device) int { return cmp.Compare(a.Late, b.Late) },
	"version": func(a, b *device) int { return cmp.Compare(a.Version, b.Version) },
	"state":   func(a, b *device) int { return cmp.Compare(a.State, b.State) },
	"certificate": func(a, b *device) int { // those that show none come before all others
		return cmp.Compare(orLeast(a.Certificate), orLeast(b.Certificate))
	},
}

func orLeast(v *float64) float64 {
	if v == nil {
		return -1e18
	}
	return *v
}

// table returns the devices whose name, programs or version hold a text, or whose state it is, in an order. counts
// says that the order needs what is missing, which is left out else.
func (f *fleet) table(text string, order func(a, b *device) int, down, counts bool) []*device {
	f.mu.Lock()
	text = strings.ToLower(text)
	copies := make([]device, 0, max(len(f.devices), len(f.words.by)))
	take := func(d device) {
		if w := f.words.by[d.Name]; w != nil {
			w.add(&d)
		}
		holds := func(name string) bool { return strings.Contains(strings.ToLower(name), text) }
		if text == "" || text == d.State || holds(d.Name) || holds(d.Version) ||
			slices.ContainsFunc(d.Programs, holds) {
			copies = append(copies, d)
		}
	}
	for name, d := range f.devices {
		take(d.row(name))
	}
	for name := range f.words.by {
		if f.devices[name] == nil {
			take(device{Name: name, Programs: []string{}})
		}
	}
	f.mu.Unlock()
	rows := make([]*device, len(copies)) // which take less to sort
	for i := range copies {
		rows[i] = &copies[i]
	}
	if counts {
		f.lost(rows)
	}
	slices.SortFunc(rows, func(a, b *device) int {
		way := order(a, b)
		if down {
			way = -way
		}
		return cmp.Or(way, cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// lost fills in what the series of devices lack.
func (f *fleet) lost(rows []*device) {
	for _, d := range rows {
		for _, p := range d.Programs {
			loss := f.tally.Loss(p, d.Name)
			if loss == (keyholder.Loss{}) {
				loss = f.tally.Loss(p, "")
			}
			d.Gaps, d.Late = max(d.Gaps, loss.Gaps), max(d.Late, loss.Late)
			d.Missing = max(d.Missing, float64(loss.Missing.Milliseconds()))
		}
	}
}

func (c *Console) programs(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"programs": c.fleet.cards(), "now": millis(c.now())})
}

// devices searches the devices of a program.
func (c *Console) devices(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	answer(w, map[string]any{"devices": c.fleet.search(q.Get("program"), q.Get("q"), 50)})
}

// fleetTable answers a page of the table.
func (c *Console) fleetTable(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	order := orders[cmp.Or(q.Get("sort"), "device")]
	offset, ok1 := number(q, "offset", 0, 1<<30, 0)
	limit, ok2 := number(q, "limit", 1, 500, 50)
	if order == nil || !ok1 || !ok2 {
		refuse(w, http.StatusBadRequest, "unknown order, or a page that cannot be")
		return
	}
	counts := slices.Contains([]string{"gaps", "missing", "late"}, q.Get("sort"))
	rows := c.fleet.table(q.Get("q"), order, q.Get("way") == "down", counts)
	first := min(int(offset), len(rows))
	page := rows[first:min(first+int(limit), len(rows))]
	if !counts {
		c.fleet.lost(page)
	}
	out := map[string]any{"total": len(rows), "now": millis(c.now()), "rows": page, "enrolled": c.o.Enrolled != nil}
	if c.o.Enrolled != nil {
		out["trouble"] = c.fleet.trouble()
	}
	answer(w, out)
}
