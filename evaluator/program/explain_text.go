package program

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/hencedge/hencedge/evaluator/model/answer"
	"github.com/hencedge/hencedge/henc"
)

// Text returns the explanation for people.
func (e Explanation) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-11s ", name)
		fmt.Fprintf(&b, format, args...)
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s = %s\n", e.Program, strings.Join(strings.Fields(e.Expr), " "))
	if e.Class != "" {
		who := "each device of the class " + e.Class
		if e.Fleet != nil {
			who = fmt.Sprintf("all devices of the class %s together, at most %d windows a result", e.Class,
				e.Fleet.Windows)
		}
		line("for", "%s", who)
	}
	line("parameters", "%s, levels 0 to %d", e.Params, e.MaxLevel)
	for _, in := range e.Inputs {
		of := ""
		if in.Bins > 0 {
			of = fmt.Sprintf(" counted in %d bins", in.Bins)
		}
		if in.Precision > 0 {
			line("input", "%s: %d samples, compact: %d readings at %d bits in %s; then level %d, scale 2^%.2f", in.Name,
				in.Samples, in.Readings, in.Precision, size(in.Bytes), in.Level, in.LogScale)
			continue
		}
		if e.Model != nil {
			line("input", "%s: a row of %d bits, whole numbers modulo %d, %s", in.Name, e.Model.RowBits, henc.DefaultT,
				size(in.Bytes))
			continue
		}
		if k := e.Comparison; k != nil {
			line("input", "%s: %d samples of %d bits in digits, whole numbers modulo %d, %s", in.Name, in.Samples,
				k.Bits, henc.DefaultT, size(in.Bytes))
			continue
		}
		line("input", "%s: %d samples%s, level %d, scale 2^%.2f, %s (%s symmetric)", in.Name, in.Samples, of,
			in.Level, in.LogScale,
			size(in.Bytes), size(in.SeededBytes))
	}
	if e.Model != nil {
		e.Model.text(line, &e)
		return b.String()
	}
	if e.Comparison != nil {
		e.Comparison.text(line, &e)
		return b.String()
	}
	e.Result.text(line, e.Fleet)
	line("depth", "%d, with %d rescalings; %s", e.Depth, e.Levels, e.Policy)
	if l := e.Least; l != nil {
		promised := fmt.Sprintf("promising %.3g", l.Bound)
		if e.Result.Exact != "" {
			promised = "as exact"
		}
		line("could do", "with level: %d on the streams (%s for an input), %s", l.Level, size(l.Bytes), promised)
	}
	line("keys", "%s", e.Keys.text())
	if b := e.Bootstrap; b != nil {
		line("bootstrap",
			"%d times, for %s; each adds %.2g of the largest value to the error and takes %d key switches, "+
				"%d limb switches; about %s of memory", b.Count, strings.Join(b.Expr, ", "),
			b.Error, b.KeySwitch, b.LimbSwitches, size(int(b.Memory)))
	}
	if k := e.Compact; k != nil {
		line("compact", "the windows of up to %d devices are bootstrapped together: %d key switches, "+
			"%d limb switches; about %s of memory, "+
			"and %s for each device; a sample is off by %.2g of half its range at most", k.Windows,
			k.KeySwitch, k.LimbSwitches, size(int(k.Memory)), size(int(k.DeviceMemory)), k.Error)
	}
	line("cost", "%d operations, %d key switches, %d limb switches", len(e.Steps), e.KeySwitch, e.LimbSwitches)
	if e.Places > 0 {
		line("", "%s", perPlace(e.Places, e.KeySwitch))
	}
	if f := e.Fleet; f != nil {
		line("", "of these %d key switches and %d limb switches for each window, the others once for each result",
			f.KeySwitch, f.LimbSwitches)
	}
	b.WriteString(stepTable(e.Steps))
	return b.String()
}

// text tells what a model is and costs, line by line.
func (m *ModelInfo) text(line func(name, format string, args ...any), e *Explanation) {
	from := ""
	if m.Source != "" {
		from = ", of " + m.Source
	}
	line("model", "%s, sha256:%s%s", m.File, m.SHA256, from)
	line("features", "%s", strings.Join(m.Features, ", "))
	line("trees", "%d, with %d splits, whose range covers have %d terms, in %d blocks of slots", m.Trees, m.Splits,
		m.Terms, m.Blocks)
	what := "one value"
	if e.Result.Count > 1 {
		what = fmt.Sprintf("%d values", e.Result.Count)
	}
	line("result", "%s, in %d ciphertexts, %s: each switched down to level %d (limbs: %d of %d)", what, m.Ciphertexts,
		size(e.Result.Bytes), e.Result.Level, e.Result.Limbs, m.Limbs)
	line("read as", "%s", m.Legend)
	line("range", "%.6g to %.6g", e.Result.Low, e.Result.High)
	promise := "exact"
	switch {
	case m.Answer == answer.Class && !m.Decided:
		promise = fmt.Sprintf("the class of the library, unless the scores of two are within %.2g", 2*m.Error)
	case e.Result.Bound > 0:
		promise = fmt.Sprintf("within %.3g of the library, before its own rounding", e.Result.Bound)
	}
	line("promise", "%s, for readings that are whole steps", promise)
	line("learned", "by the key holder: %s, and about how large the model is", m.Learned)
	line("depth", "%d", e.Depth)
	line("keys", "%d, which are the same for every model under %s (%s)", e.Keys.Count, e.Params, size(e.Keys.Bytes))
	line("cost", "a row: %d products, %d products with plaintexts, %d key switches; about %.2g s of one core",
		m.Products,
		m.PlainProducts, e.KeySwitch, m.Seconds)
}

// text tells what is compared and what that costs, line by line.
func (k *ComparisonInfo) text(line func(name, format string, args ...any), e *Explanation) {
	what := "one value"
	if e.Result.Count > 1 {
		what = fmt.Sprintf("%d values, one for each sample", e.Result.Count)
	}
	line("result", "%s, %s", what, size(e.Result.Bytes))
	line("read as", "1 where a sample of %s is below that of %s, else 0, also where they are equal", k.Less, k.Than)
	line("promise", "exact, for readings rounded to whole steps of %g %s", k.Resolution, k.Unit)
	line("learned", "by the key holder: these answers, and no readings; the noise of results is not flooded")
	line("room", "for %d samples of %d bits in a window", k.Room, k.Bits)
	line("depth", "%d, with %.0f bits of noise to spare", e.Depth, k.Spare)
	line("keys", "%d, which are the same for every program under %s (%s)", e.Keys.Count, e.Params, size(e.Keys.Bytes))
	line("cost", "a pair of windows: %d products, %d key switches; about %.2g s of one core", k.Products, e.KeySwitch,
		k.Seconds)
}

// text tells what the key holder gets, line by line.
func (r *ResultInfo) text(line func(name, format string, args ...any), across *FleetInfo) {
	what := "one value"
	if r.Count > 1 && r.Reading == "" {
		what = fmt.Sprintf("%d values", r.Count)
	}
	line("result", "%s, level %d (%d limbs), scale 2^%.2f, %s", what, r.Level, r.Limbs, r.LogScale, size(r.Bytes))
	formula := fmt.Sprintf("%.9g * slot[%s]", r.A, slots(*r))
	switch {
	case r.B > 0:
		formula += fmt.Sprintf(" + %.9g", r.B)
	case r.B < 0:
		formula += fmt.Sprintf(" - %.9g", -r.B)
	}
	if r.Sqrt {
		formula = "sqrt(" + formula + ")"
	}
	switch {
	case r.Reading != "":
		formula = r.Reading + ", of the counts " + formula
	case r.AtLeast > 0:
		formula += fmt.Sprintf(", rounded, then 1 if it is at least %g, else 0", r.AtLeast)
	case r.Exact != "":
		formula += ", rounded"
	}
	line("read as", "%s", formula)
	line("range", "%.6g to %.6g", r.Low, r.High)
	promise := fmt.Sprintf("error at most %.3g (%.1f bits of the range)", r.Bound, r.Bits)
	if r.Sqrt {
		promise += fmt.Sprintf(", at %.3g at most %.3g; each result tells its own", r.High, r.HighBound)
	}
	if r.Exact != "" {
		promise = fmt.Sprintf("%s: the noise of a count is at most %.2g before it is rounded", r.Exact, r.Noise)
	}
	if across != nil {
		promise = across.promises()
	}
	line("promise", "%s", promise)
	if r.Undecided > 0 {
		line("undecided", "samples within %g of a threshold: a comparison of them is anything from 0 to 1", r.Undecided)
	} else if r.Exact != "" {
		line("holds", "the counts of all bins, of which these are read")
	}
}

// promises returns the promised errors in words.
func (f *FleetInfo) promises() string {
	var parts []string
	for _, p := range f.Promises {
		if f.Exact != "" {
			parts = append(parts, fmt.Sprintf("%.2g for %d", p.Noise, p.Windows))
			continue
		}
		parts = append(parts, fmt.Sprintf("%.3g for %d", p.Bound, p.Windows))
	}
	if f.Exact != "" {
		return f.Exact + ": the noise of a count is at most " + strings.Join(parts, ", ") +
			" full windows before it is rounded"
	}
	return "error at most " + strings.Join(parts, ", ") + " full windows"
}

// Text returns the explanation for people.
func (e SetExplanation) Text() string {
	text := fmt.Sprintf("%s together\n  keys        %s\n  cost        %d operations a window, %d key switches "+
		"(%d one by one), %d limb switches (%d)\n", strings.Join(e.Programs, ", "), e.Keys.text(), len(e.Steps),
		e.KeySwitch, e.AloneKey, e.LimbSwitches, e.AloneLimb)
	if e.Places > 0 {
		text += fmt.Sprintf("  %-11s %s\n", "", perPlace(e.Places, e.KeySwitch))
	}
	return text + stepTable(e.Steps)
}

// perPlace says what a window costs where several share a ciphertext.
func perPlace(places, switches int) string {
	return fmt.Sprintf("for the windows of up to %d devices at places of their own: down to %.1f key switches a window",
		places, float64(switches)/float64(places))
}

// stepTable returns a table of steps, after an empty line.
func stepTable(steps []StepInfo) string {
	var b strings.Builder
	b.WriteByte('\n')
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "  step\toperation\tlevel\tlimbs\tscale\tmagnitude\terror\troom\tfor")
	for _, s := range steps {
		fmt.Fprintf(w, "  #%d\t%s\t%d\t%d\t2^%.2f\t2^%.1f\t2^%.1f\t%.1f\t%s\n", s.ID, s.Text, s.Level,
			s.Limbs, s.LogScale,
			s.LogMag, s.LogError, s.Room, s.Expr)
	}
	w.Flush()
	return b.String()
}

func slots(r ResultInfo) string {
	if r.Count == 1 {
		return fmt.Sprint(r.Slot)
	}
	return fmt.Sprintf("%d..%d", r.Slot, r.Slot+r.Count-1)
}

func (k KeyInfo) text() string {
	var parts []string
	if k.Relinearise {
		parts = append(parts, "relinearisation")
	}
	if len(k.Rotations) > 0 {
		parts = append(parts, "rotations "+strings.Trim(fmt.Sprint(k.Rotations), "[]"))
	}
	if k.Bootstrap {
		parts = append(parts, fmt.Sprintf("bootstrapping: %d keys in all", k.Count))
	}
	if len(parts) == 0 {
		return "none"
	}
	return fmt.Sprintf("%s (%s)", strings.Join(parts, ", "), size(k.Bytes))
}

// size returns a number of bytes in binary units.
func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
