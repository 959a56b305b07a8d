package spool

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hencedge/hencedge/transport"
)

// Names in a spool directory.
const (
	objectSuffix = ".obj"
	tempSuffix   = ".tmp"
	markSuffix   = ".mark" // where an input was when its newest object left
	lastSuffix   = ".last" // the newest object of a stream that left
	damagedDir   = "damaged"

	damagedSuffix = ".bad" // in damagedDir
)

func objectName(number uint64) string { return fmt.Sprintf("%016x%s", number, objectSuffix) }

// numberOf returns the number in the name of an object, or of its temporary file.
func numberOf(name, suffix string) (uint64, bool) {
	text, ok := strings.CutSuffix(name, suffix)
	if !ok || len(text) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 16, 64)
	return n, err == nil && text == strings.ToLower(text)
}

// markerName is the file that makes a directory a spool's own. The name counts, not the
// content.
const markerName = "hencedge.spool"

var markerText = []byte("This directory belongs to a spool of hencedge. Keep nothing else in it.\n")

// streamOf returns the stream in the name of a file that a spool makes once for each
// stream.
func streamOf(name, suffix string) (string, bool) {
	stream, ok := strings.CutSuffix(name, suffix)
	return stream, ok && transport.CheckName(stream) == nil
}

// ours reports whether a spool gives files this name. Temporary files do not count.
func ours(name string) bool {
	if name == markerName {
		return true
	}
	if _, ok := numberOf(name, objectSuffix); ok {
		return true
	}
	if _, ok := streamOf(name, markSuffix); ok {
		return true
	}
	_, ok := streamOf(name, lastSuffix)
	return ok
}

// setAside returns the name of a damaged file in the quarantine.
func setAside(name string) string { return strings.TrimSuffix(name, objectSuffix) + damagedSuffix }

// wasSetAside reports whether setAside made this name.
func wasSetAside(name string) bool {
	if _, ok := numberOf(name, damagedSuffix); ok {
		return true
	}
	_, ok := streamOf(name, markSuffix+damagedSuffix)
	return ok
}
