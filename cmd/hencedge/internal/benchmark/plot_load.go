package benchmark

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Measures of a breakdown in pixels.
const (
	flameWidth  = 960
	flameLeft   = 16
	flameTop    = 66
	flameRow    = 26
	flameGap    = 54 // between the two pictures of a record
	flameLabel  = 64 // the least width that holds a name
	flameLegend = 20 // a line of it
)

// flameStyle adds to chartStyle. Work is warm, waiting is grey.
const flameStyle = `
.all{fill:#54606e}.part{fill:#8c6d46}.work{fill:#d9822b}.waits{fill:#b9c1c9}
rect{stroke:#fff;stroke-width:1}.in{fill:#fff}.in.waits{fill:#1f2328}
@media(prefers-color-scheme:dark){rect{stroke:#0d1117}.waits{fill:#57606a}.in.waits{fill:#e6edf3}}`

// PlotLoads returns a chart for each record of a service under load: where the time of a
// window and of one of its results goes, and how the work on a window is shared out.
func PlotLoads(records []LoadRecord) []Chart {
	var out []Chart
	for i, r := range records {
		name := OpEvaluator
		if i > 0 {
			name = fmt.Sprintf("%s-%d", OpEvaluator, i+1)
		}
		out = append(out, Chart{name, flame(r)})
	}
	return out
}

// cell is a box of a breakdown.
type cell struct {
	name, class string
	us          float64
}

// flame draws a record.
func flame(r LoadRecord) []byte {
	var window, result, work []cell
	for _, s := range r.Stages {
		kind := stageWork[s.Name]
		c := cell{s.Name, "work", s.MeanUS}
		if !kind.work {
			c.class = "waits"
		} else {
			work = append(work, cell{s.Name, "work", s.MeanUS * s.PerWindow})
		}
		if kind.result {
			result = append(result, c)
		} else {
			window = append(window, c)
		}
	}
	way := append(slices.Clone(window), result...)
	legend := func(cells []cell) int { return (len(cells) + 3) / 4 * flameLegend }
	height := flameTop + 3*flameRow + legend(way) + flameGap + 2*flameRow + legend(work) + 24
	var b strings.Builder
	title := "Where the time of a window goes"
	fmt.Fprintf(
		&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n",
		flameWidth,
		height,
	)
	fmt.Fprintf(&b, "<title>%s, %s</title>\n<style>%s%s</style>\n", title, html.EscapeString(r.Device), chartStyle,
		flameStyle)
	label(&b, "title", flameLeft, 20, title)
	offered := "as fast as they are taken"
	if r.Rate > 0 {
		offered = fmt.Sprintf("%.0f offered a second", r.Rate)
	}
	label(&b, "quiet", flameLeft, 38, fmt.Sprintf("%s; %s, %d devices, %s, %s; %.0f windows/s", r.Device, r.Params,
		r.Devices, strings.Join(r.Programs, ", "), offered, r.WindowsPerS))
	y := float64(flameTop)
	label(&b, "", flameLeft, y-8, "by the clock, of one window and one of its results; grey is waiting")
	total := sum(way)
	y = row(&b, y, total, []cell{{"last chunk to result", "all", total}})
	y = row(&b, y, total, []cell{{"window", "part", sum(window)}, {"result", "part", sum(result)}})
	y = row(&b, y, total, way)
	y = list(&b, y, total, way)
	y += flameGap
	all := sum(work)
	label(&b, "", flameLeft, y-8, "the work on a window and all of its results")
	y = row(&b, y, all, []cell{{"a window", "all", all}})
	y = row(&b, y, all, work)
	list(&b, y, all, work)
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func sum(cells []cell) (us float64) {
	for _, c := range cells {
		us += c.us
	}
	return us
}

// row draws cells beside each other; total takes the whole width. It returns where the next
// row begins.
func row(b *strings.Builder, y, total float64, cells []cell) float64 {
	if total <= 0 {
		return y + flameRow
	}
	x := float64(flameLeft)
	for _, c := range cells {
		w := (flameWidth - 2*flameLeft) * c.us / total
		fmt.Fprintf(
			b,
			`<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%d"><title>%s, %s, %.1f %%</title></rect>`+
				"\n",
			c.class,
			x,
			y,
			w,
			flameRow-2,
			html.EscapeString(c.name),
			micros(c.us),
			100*c.us/total,
		)
		if w >= flameLabel {
			label(b, "in "+c.class, x+6, y+flameRow/2+3, c.name)
		}
		x += w
	}
	return y + flameRow
}

// list writes the times of cells, four to a line.
func list(b *strings.Builder, y, total float64, cells []cell) float64 {
	for i, c := range cells {
		share := 0.0
		if total > 0 {
			share = 100 * c.us / total
		}
		x := flameLeft + float64(i%4)*(flameWidth-2*flameLeft)/4
		label(
			b,
			"quiet",
			x,
			y+float64(i/4+1)*flameLegend-4,
			fmt.Sprintf("%s %s, %.1f %%", c.name, micros(c.us), share),
		)
	}
	return y + float64((len(cells)+3)/4*flameLegend)
}

func label(b *strings.Builder, class string, x, y float64, s string) {
	fmt.Fprintf(b, `<text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, x, y, html.EscapeString(s))
}
