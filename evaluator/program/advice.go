package program

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/hencedge/hencedge/config"
	"github.com/hencedge/hencedge/henc"
)

// advice returns what would make a refused program fit.
func (s *search) advice(err *Error) string {
	if !errors.Is(err, ErrDepth) && !errors.Is(err, ErrMagnitude) {
		return err.Hint
	}
	var ways []string
	lowered := false
	for _, v := range s.prog.Vars {
		lowered = lowered || v.Stream.Level != nil && *v.Stream.Level < s.ch.maxLevel
	}
	if lowered {
		if c, e := s.changed(s.ch.params, func(st *config.Stream) { st.Level = nil }); e == nil {
			ways = append(ways, fmt.Sprintf("leave out level: of the streams (promised error %.2g)", c.out.Bound))
		}
	}
	if errors.Is(err, ErrMagnitude) {
		top := 0
		for _, v := range s.prog.Vars {
			top = max(top, int(math.Round(math.Log2(InputScale(s.ch.params, v.Stream)))))
		}
		for scale := min(top-1, s.ch.params.LogScale()); scale >= 12; scale-- {
			c, e := s.changed(s.ch.params, func(st *config.Stream) { st.LogScale = scale })
			if e == nil && c.Useful() {
				ways = append(ways, fmt.Sprintf("set log_scale: %d on the streams (promised error %.2g)", scale, c.out.Bound))
				break
			}
		}
	}
	if c := s.otherParams(); c != nil {
		ways = append(ways, fmt.Sprintf("use parameters %s (promised error %.2g)", c.params.Name(), c.out.Bound))
	}
	if len(ways) == 0 {
		if err.Hint != "" {
			return err.Hint
		}
		return "no named parameters fit; split the program, or compute part of it after decryption"
	}
	return strings.Join(ways, "; or ")
}

// otherParams returns the program under the first named parameters that give a
// useful promise, else under the first that fit.
func (s *search) otherParams() (fits *Circuit) {
	for _, name := range henc.Names() {
		p, err := henc.Named(name)
		if err != nil || name == s.ch.params.Name() {
			continue
		}
		c, err := s.changed(p, func(st *config.Stream) { st.Params, st.LogScale, st.Level = name, 0, nil })
		if err == nil && c.Useful() {
			return c
		}
		if err == nil && fits == nil {
			fits = c
		}
	}
	return fits
}

// Useful reports whether the promised error is below a hundredth of the range
// of results.
func (c *Circuit) Useful() bool { return useful(c.lo, c.hi, c.out) }

// useful is Useful for values of lo to hi before the root.
func useful(lo, hi float64, out Output) bool {
	width := hi - lo
	if out.Sqrt {
		width = math.Sqrt(max(hi, 0)) - math.Sqrt(max(lo, 0))
	}
	return out.Bound < width/100
}

// changed compiles the program with changed streams.
func (s *search) changed(p henc.Parameters, change func(*config.Stream)) (*Circuit, error) {
	prog := *s.prog
	prog.Vars = make(map[string]Var, len(s.prog.Vars))
	for name, v := range s.prog.Vars {
		change(&v.Stream)
		prog.Vars[name] = v
	}
	return compile(prog, p, false)
}
