#!/usr/bin/env bash
# Measures the memory of a program that does nothing but encrypt compact windows of 64
# readings: VmHWM is its peak with the pages of its binary, RssAnon what is its own. It runs
# the garbage collector as an agent does.
#
#   cross/measure-compact.sh [windows [runs]]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/main.go" <<'GO'
package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hencedge/hencedge/henc"
	"github.com/hencedge/hencedge/henc/compact"
	"github.com/hencedge/hencedge/henc/secret"
)

func main() {
	debug.SetGCPercent(25) // as agent/plan.TuneMemory
	windows, err := strconv.Atoi(os.Args[1])
	check(err)
	memory("at its start")
	set, err := compact.Named("compact12")
	check(err)
	ctx, err := henc.NewContext(set)
	check(err)
	key, err := secret.Generate(ctx, nil)
	check(err)
	e, err := secret.NewCompactEncryptor(key)
	check(err)
	x := make([]float64, 64)
	began := time.Now()
	for i := range windows {
		origin := compact.Origin{Device: "board-1", Stream: "machine", Sequence: uint64(i)}
		w, err := e.Encrypt(x, compact.Bits12, origin, nil)
		check(err)
		_, err = w.Marshal()
		check(err)
	}
	took := time.Since(began)
	memory(fmt.Sprintf("%d windows, %v each", windows, took/time.Duration(windows)))
}

func memory(when string) {
	s, err := os.ReadFile("/proc/self/status")
	check(err)
	fields := regexp.MustCompile(`(?m)^(VmHWM|RssAnon):\s*\d+ kB$`).FindAllString(string(s), -1)
	fmt.Printf("%s: %s\n", when, strings.ReplaceAll(strings.Join(fields, ", "), "\t", ""))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
GO
CGO_ENABLED=0 go build -trimpath -tags nogpu -ldflags '-s -w' -o "$dir/compact" "$dir/main.go"
for _ in $(seq "${2:-3}"); do "$dir/compact" "${1:-2000}"; done
