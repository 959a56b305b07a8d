package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hencedge/hencedge/cutrantt/cpu"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	names := flag.String("shapes", "A,B,C4,D", "shapes to run; none for an empty list")
	boots := flag.String("boot", "", "bootstrappings to run: boot15 (17 GiB of memory with GOGC=30), boot15-13, boot16")
	only := flag.String("ops", strings.Join(operations, ","), "operations to run")
	rounds := flag.Int("rounds", 9, "interleaved rounds; the median counts")
	span := flag.Duration("time", 50*time.Millisecond, "time of one side in one round")
	n2 := flag.Int("n2", 0, "columns of our transform domain, 0 for the fastest")
	out := flag.String("json", "", "file for the records, one JSON object a line")
	flag.Parse()
	if *rounds < 1 || *span <= 0 {
		return fmt.Errorf("-rounds and -time must be positive")
	}
	runtime.GOMAXPROCS(1)
	write := func(record) error { return nil }
	if *out != "" {
		f, err := os.Create(*out)
		if err != nil {
			return err
		}
		defer f.Close()
		e := json.NewEncoder(f)
		write = func(r record) error { return e.Encode(r) }
	}
	fmt.Printf("%s, Go %s, one core; times in us\n", cpu.New().Device(), runtime.Version())
	for _, s := range shapes {
		if !slices.Contains(strings.Split(*names, ","), s.name) {
			continue
		}
		if err := one(s, strings.Split(*only, ","), *rounds, *span, *n2, write); err != nil {
			return fmt.Errorf("shape %s: %w", s.name, err)
		}
	}
	return bootstraps(list(*boots), *rounds, *span, *n2, write)
}

// one prints the rows of a shape and hands each record to write.
func one(s shape, ops []string, rounds int, span time.Duration, n2 int, write func(record) error) error {
	rng := rand.New(rand.NewPCG(1, 1))
	values := make([]complex128, 1<<(s.logN-1))
	for i := range values {
		values[i] = complex(2*rng.Float64()-1, 2*rng.Float64()-1)
	}
	f, about, err := ours(s, n2, values)
	if err != nil {
		return err
	}
	g, aboutTheirs, err := theirs(s, values)
	if err != nil {
		return fmt.Errorf("lattigo: %w", err)
	}
	if s.integers() {
		if err := ourIntegers(s, n2, f); err != nil {
			return fmt.Errorf("integers: %w", err)
		}
		if err := theirIntegers(s, g); err != nil {
			return fmt.Errorf("lattigo's integers: %w", err)
		}
	}
	fmt.Printf(
		"\nshape %s: N = 2^%d, logQ %d, dnum %d; ours %s; Lattigo %s\n", s.name, s.logN, s.logQ, s.dnum, about,
		aboutTheirs,
	)
	fmt.Println(heading)
	for _, op := range operations {
		if !slices.Contains(ops, op) || f[op] == nil {
			continue
		}
		r, err := compare(f[op], g[op], rounds, span)
		if err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
		r.Shape, r.LogN, r.LogQ, r.Dnum, r.Op = s.name, s.logN, s.logQ, s.dnum, op
		fmt.Println(r)
		if err := write(r); err != nil {
			return err
		}
	}
	return nil
}
