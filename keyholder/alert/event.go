package alert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"
)

// A Result is what rules look at: one decrypted result.
type Result struct {
	Program   string
	Device    string // of a program for a class; empty for others
	Evaluator string
	Unit      string
	Start     time.Time // of its window
	End       time.Time
	Values    []float64 // at least one, in natural units
	Bound     float64   // promised |error| of each value
}

// States of an alarm, as events tell them.
const (
	StateFiring   = "firing"
	StateResolved = "resolved"
)

// An Event says that an alarm was raised or has ended. It is what receivers get.
type Event struct {
	ID       string `json:"id"`       // of the event: the same whenever it is sent
	Incident string `json:"incident"` // shared by the two events of one alarm
	Alert    string `json:"alert"`    // the rule's name
	State    string `json:"state"`    // StateFiring or StateResolved
	Severity string `json:"severity"`
	Holder   string `json:"holder"` // name of the key holder
	Program  string `json:"program"`
	Device   string `json:"device,omitempty"`
	// Devices are those that an alarm of a class is about when it is raised, at most
	// mostDevices of them.
	Devices   []string `json:"devices,omitempty"`
	Evaluator string   `json:"evaluator,omitempty"`
	Rule      string   `json:"rule"` // the condition that held, such as "value > 80"

	Value   *float64   `json:"value,omitempty"` // that decided, of the last window
	Bound   float64    `json:"bound,omitempty"` // its promised error
	Unit    string     `json:"unit,omitempty"`
	Windows int        `json:"windows,omitempty"` // that decided, one after the other
	Start   *time.Time `json:"start,omitempty"`   // of the first of them
	End     *time.Time `json:"end,omitempty"`     // of the last of them

	Raised time.Time `json:"raised"` // when the alarm was raised, by this machine's clock
	At     time.Time `json:"at"`     // when this event was made
	Number uint64    `json:"number"` // of the alarm's events, from 1
	Reason string    `json:"reason,omitempty"`
}

// mostDevices bounds the names in an event.
const mostDevices = 16

// identify sets the ids of an event that the window of a device caused. They depend on
// nothing but that, so that an event which is made again is the same.
func (e *Event) identify(device string, start, end int64) {
	e.Incident = digest(e.Holder, e.Alert, e.Program, e.Device, device, fmt.Sprint(start), fmt.Sprint(end))
	e.ID = digest(e.Incident, e.State)
}

// digest returns 128 bits of the SHA-256 of texts.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// finite returns v for an event, or nil if JSON has no such number.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// bound returns a promised error for an event; the largest number stands for none.
func bound(v float64) float64 {
	if math.IsNaN(v) {
		return math.MaxFloat64
	}
	return min(v, math.MaxFloat64)
}

// unit returns a unit for an event: the program's, if it is as short as units are.
func unit(s string) string {
	if len(s) > maxUnit {
		return ""
	}
	return s
}

// maxUnit bounds the length of a unit in bytes.
const maxUnit = 64

// instant returns a time as events have it.
func instant(ns int64) *time.Time {
	t := time.Unix(0, ns).UTC()
	return &t
}
