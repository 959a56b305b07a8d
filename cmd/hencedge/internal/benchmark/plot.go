package benchmark

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Chart is one picture of records.
type Chart struct {
	Name string // of its file, without the ending
	SVG  []byte
}

// charts lists the pictures and the operations that each shows.
var charts = []struct {
	name, title string
	ops         []string
}{
	{"transforms", "Transforms", []string{"ntt", "intt"}},
	{"products", "Hadamard products", []string{"hadamard"}},
	{"encryption", "Encoding, encryption, decryption", []string{"encode", "henc_pk", "henc_seeded", "henc", "decrypt",
		"decode"}},
	{"evaluation", "Operations on ciphertexts", []string{"hadd", "cmult", "hmult", "hmult_rescale",
		"rescale", "hrotate"}},
}

// Plot returns a chart for each group of operations that records have. A row is one
// record: a dot at its median and, where the record has one, a ring at the copy of the
// same bytes, which is the memory's limit. The axis is logarithmic, in microseconds.
// Records of several devices make one chart each, numbered from the second device on.
func Plot(records []Record) []Chart {
	var devices []string
	for _, r := range records {
		if !slices.Contains(devices, r.Device) {
			devices = append(devices, r.Device)
		}
	}
	var out []Chart
	for i, device := range devices {
		for _, c := range charts {
			var rows []Record
			for _, r := range records {
				if r.Device == device && slices.Contains(c.ops, r.Op) && r.MedianUS > 0 {
					rows = append(rows, r)
				}
			}
			if len(rows) == 0 {
				continue
			}
			name := c.name
			if i > 0 {
				name = fmt.Sprintf("%s-%d", c.name, i+1)
			}
			out = append(out, Chart{name, svg(c.title, device, rows)})
		}
	}
	return out
}

// Measures of a chart in pixels.
const (
	chartWidth = 960
	labelWidth = 470
	rowHeight  = 18
	chartTop   = 70
	chartRight = 70
)

// chartStyle follows the colours of the page, light or dark.
const chartStyle = `text{font:12px system-ui,sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.quiet{fill:#656d76}
.grid{stroke:#d0d7de}.reach{stroke:#8c959f;stroke-width:2}
.time{fill:#0969da}.copy{fill:none;stroke:#8c959f;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#8d96a0}.grid{stroke:#30363d}.time{fill:#4493f8}}`

// svg draws rows, each with a positive median.
func svg(title, device string, rows []Record) []byte {
	low, high := math.Inf(1), 0.0
	for _, r := range rows {
		low, high = min(low, r.MedianUS), max(high, r.MedianUS)
		if r.CopyUS > 0 {
			low, high = min(low, r.CopyUS), max(high, r.CopyUS)
		}
	}
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if last == first {
		last++
	}
	x := func(us float64) float64 {
		return labelWidth + (chartWidth-labelWidth-chartRight)*(math.Log10(us)-first)/(last-first)
	}
	height := chartTop + rowHeight*len(rows) + 14
	var b strings.Builder
	text := func(class, anchor string, x, y float64, s string) {
		fmt.Fprintf(&b, `<text class="%s" text-anchor="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, anchor, x, y,
			html.EscapeString(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", chartWidth, height)
	fmt.Fprintf(&b, "<title>%s, %s</title>\n<style>%s</style>\n", html.EscapeString(title), html.EscapeString(device),
		chartStyle)
	text("title", "start", 8, 20, title)
	text("quiet", "start", 8, 38, device+"; microseconds; ring: a copy of the same bytes")
	for e := first; e <= last; e++ {
		at := x(math.Pow(10, e))
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`+"\n", at, at, chartTop-8, height-8)
		text("quiet", "middle", at, chartTop-14, fmt.Sprintf("%g", math.Pow(10, e)))
	}
	for i, r := range rows {
		y := float64(chartTop + rowHeight*i + rowHeight/2)
		text("", "end", labelWidth-14, y+4, rowLabel(r))
		if r.CopyUS > 0 {
			fmt.Fprintf(&b, `<line class="reach" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n",
				x(r.CopyUS), x(r.MedianUS),
				y, y)
			fmt.Fprintf(&b, `<circle class="copy" cx="%.1f" cy="%.1f" r="3.5"/>`+"\n", x(r.CopyUS), y)
		}
		fmt.Fprintf(&b, `<circle class="time" cx="%.1f" cy="%.1f" r="4.5"/>`+"\n", x(r.MedianUS), y)
		text("", "start", x(max(r.MedianUS, r.CopyUS))+9, y+4, threeDigits(r.MedianUS))
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// rowLabel names a record in a chart.
func rowLabel(r Record) string {
	parts := []string{r.Op}
	if !strings.HasPrefix(r.Method, "n2=") && r.Method != "auto" {
		parts = append(parts, r.Method)
	}
	parts = append(parts, r.Params)
	if r.N2 > 0 {
		parts = append(parts, fmt.Sprintf("n2=%d", r.N2))
	}
	if r.Batch > 1 {
		parts = append(parts, fmt.Sprintf("batch %d", r.Batch))
	}
	return strings.Join(parts, ", ")
}

// threeDigits is a time with three digits at least.
func threeDigits(us float64) string {
	if us >= 100 {
		return fmt.Sprintf("%.0f", us)
	}
	return fmt.Sprintf("%.3g", us)
}
