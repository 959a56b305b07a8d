package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hencedge/hencedge/config/internal/yamlx"
)

// Agent is the configuration of the edge service.
type Agent struct {
	Version int `yaml:"version"`
	// Device names this device on every topic and in every signature.
	Device string `yaml:"device" cfg:"required"`
	Broker Broker `yaml:"broker" cfg:"required"`
	// Keys are the encryption keys; SigningKey is the file of the device's
	// Ed25519 key.
	Keys       AgentKeys `yaml:"keys" cfg:"required"`
	SigningKey string    `yaml:"signing_key" cfg:"required,path"`
	// State is the file that holds the boot epoch and the next sequence
	// numbers; it must survive restarts.
	State   string   `yaml:"state" cfg:"required,path"`
	Streams []Stream `yaml:"streams" cfg:"required"`
	// Inputs are devices and connections that sources refer to.
	Inputs []Input `yaml:"inputs"`
	Queue  Queue   `yaml:"queue"`
	// Spool keeps sealed windows on disk; nil keeps them in memory only.
	Spool    *Spool   `yaml:"spool"`
	Delivery Delivery `yaml:"delivery"`
	// BackendFallback says what happens when the GPU that encrypts fails.
	BackendFallback FallbackPolicy `yaml:"backend_fallback"`
	// Workers bounds the processors that the agent uses at a time; 0 means all that the
	// machine, or the service's CPU quota, gives it.
	Workers int `yaml:"workers"`
	// StopTimeout bounds how long a stop waits for the queue to drain.
	StopTimeout Duration `yaml:"stop_timeout"`
	Log         Log      `yaml:"log"`
	Metrics     Metrics  `yaml:"metrics"`
	Traces      *Traces  `yaml:"traces"`
	Control     Control  `yaml:"control"`
	Remote      *Remote  `yaml:"remote"`
	// Place is the device's place in streams with Places, modulo their number; nil means
	// PlaceOf its name.
	Place *int `yaml:"place" cfg:"zero"`
	// Energy says whether the board's power sensor is read.
	Energy EnergyPolicy `yaml:"energy"`

	origin
}

// PlaceIn returns the device's place in a stream.
func (a *Agent) PlaceIn(s Stream) int {
	switch {
	case s.Places < 2:
		return 0
	case a.Place != nil:
		return *a.Place % s.Places
	}
	return PlaceOf(a.Device, s.Places)
}

// EnergyPolicy says whether energy is counted.
type EnergyPolicy string

const (
	EnergyAuto EnergyPolicy = "auto" // where the board has a power sensor
	EnergyOff  EnergyPolicy = "off"
)

// AgentKeys are the encryption keys of an agent.
type AgentKeys struct {
	Mode KeyMode `yaml:"mode"`
	// PublicKey is the file exported by `hencedge keys export --role agent`.
	PublicKey string `yaml:"public_key" cfg:"path"`
	// SecretKey is the secret key file, only with mode symmetric.
	SecretKey string `yaml:"secret_key" cfg:"path"`
	// BoardKey is the key of the device's compact windows, from `hencedge keys device`. Its streams are of mode
	// compact.
	BoardKey string `yaml:"board_key" cfg:"path"`
	// Holder is who must have signed the export that the key came with: the
	// fingerprint that `hencedge keys show` prints, or the public key. "none" takes
	// the keys of anyone.
	Holder string `yaml:"holder"`
}

// AllCompact reports whether every stream is of mode compact: the agent then needs no key but the board's.
func (a *Agent) AllCompact() bool {
	return !slices.ContainsFunc(a.Streams, func(s Stream) bool { return s.Compact() == 0 })
}

// HolderNone, as keys.holder, waives the check of who signed the keys.
const HolderNone = "none"

// KeyMode says how an agent encrypts.
type KeyMode string

const (
	// KeyModePublic encrypts with the public key: nothing to steal on the
	// board. The default.
	KeyModePublic KeyMode = "public"
	// KeyModeSymmetric encrypts with the secret key and sends half the bytes.
	// Whoever takes the board can decrypt all data under that key.
	KeyModeSymmetric KeyMode = "symmetric"
)

// Queue bounds the sealed windows that wait in memory to be sent.
type Queue struct {
	Objects int         `yaml:"objects"`
	Bytes   Size        `yaml:"bytes"`
	Full    QueuePolicy `yaml:"full"`
}

// Evaluator is the configuration of the cloud subscriber.
type Evaluator struct {
	Version int `yaml:"version"`
	// Name names this evaluator in results.
	Name   string `yaml:"name" cfg:"required"`
	Broker Broker `yaml:"broker" cfg:"required"`
	// KeySets are directories exported by `hencedge keys export --role
	// evaluator`.
	KeySets []string      `yaml:"key_sets" cfg:"required,path"`
	Keys    EvaluatorKeys `yaml:"keys"`
	// SigningKey is the file of the evaluator's Ed25519 key, which signs
	// results.
	SigningKey string `yaml:"signing_key" cfg:"required,path"`
	// State is the file that holds the boot epoch and the sequence numbers of
	// results, and the replay guard.
	State string `yaml:"state" cfg:"required,path"`
	// Devices are the agents whose signatures are accepted.
	Devices []Device `yaml:"devices"`
	// Enrolled are files, or directories of files, that list more devices: what
	// `hencedge evaluator enroll` prints. They are read again while the service runs.
	Enrolled OneOrMore `yaml:"enrolled" cfg:"path,one"`
	// Classes describe the streams of devices that are alike.
	Classes  []Class        `yaml:"classes"`
	Streams  []DeviceStream `yaml:"streams"`
	Programs []Program      `yaml:"programs" cfg:"required"`
	Join     Join           `yaml:"join"`
	Limits   Limits         `yaml:"limits"`
	// BackendFallback says what happens when the device that computes fails.
	BackendFallback FallbackPolicy `yaml:"backend_fallback"`
	// Store keeps windows and results on disk until they are worked off and
	// delivered, and answers with receipts; nil keeps them in memory.
	Store *Store `yaml:"store"`
	// Results says how results go out; nil sends each in an object of its own.
	Results *Results `yaml:"results"`
	// Workers is the number of programs that the processor evaluates at a time; 0 means
	// one per CPU.
	Workers int `yaml:"workers"`
	// Batch is how many windows of the same program a GPU evaluates together, at most.
	Batch int `yaml:"batch"`
	// Latency is how long a window may wait for others while a GPU, or half of the processor, computes.
	Latency     Duration `yaml:"latency"`
	StopTimeout Duration `yaml:"stop_timeout"`
	Log         Log      `yaml:"log"`
	Metrics     Metrics  `yaml:"metrics"`
	Traces      *Traces  `yaml:"traces"`
	Control     Control  `yaml:"control"`

	origin
}

// EvaluatorKeys say whose evaluation keys are taken.
type EvaluatorKeys struct {
	// Holder is who must have signed the key sets: the fingerprint that `hencedge
	// keys show` prints, or the public key; a list if the key sets are of several.
	// "none" takes the keys of anyone.
	Holder OneOrMore `yaml:"holder" cfg:"one"`
}

// OneOrMore is a text, or a list of them, in a file.
type OneOrMore []string

// FallbackPolicy says what happens when a GPU fails.
type FallbackPolicy string

// What is under way is computed again in the first two cases.
const (
	FallbackCPU   FallbackPolicy = "cpu"   // the processor takes over
	FallbackRetry FallbackPolicy = "retry" // a new context on the GPU, then the processor
	FallbackStop  FallbackPolicy = "stop"  // the service ends with an error
)

// A Device is an agent whose windows are accepted.
type Device struct {
	Name string `yaml:"name" cfg:"required"`
	// PublicKey is "ed25519:" and 32 bytes in standard base64.
	PublicKey string `yaml:"public_key" cfg:"required"`
	// Class says which streams it has, beside those of Evaluator.Streams.
	Class string `yaml:"class"`
}

// Results let single values of many windows and programs share a ciphertext.
type Results struct {
	// Pack is how many results of one key set go out together, at most.
	Pack int `yaml:"pack" cfg:"required"`
	// Within is how long a result waits for others, at most.
	Within Duration `yaml:"within"`
}

// A Class describes devices that are alike.
type Class struct {
	Name string `yaml:"name" cfg:"required"`
	// Streams are those of every device of the class.
	Streams []Stream `yaml:"streams" cfg:"required"`
}

// Class returns the class with this name, or nil.
func (e *Evaluator) Class(name string) *Class {
	for i := range e.Classes {
		if e.Classes[i].Name == name {
			return &e.Classes[i]
		}
	}
	return nil
}

// Stream returns the stream of the class with this name, or nil.
func (c *Class) Stream(name string) *Stream {
	for i := range c.Streams {
		if c.Streams[i].Name == name {
			return &c.Streams[i]
		}
	}
	return nil
}

// A PlacedStream is a stream and where a configuration describes it.
type PlacedStream struct {
	Path   string // such as "classes[0].streams[1]"
	Stream *Stream
}

// StreamsOf returns the streams of a device of a class, or of none.
func (e *Evaluator) StreamsOf(device, class string) (out []PlacedStream) {
	for i := range e.Streams {
		if e.Streams[i].Device == device {
			out = append(out, PlacedStream{fmt.Sprintf("streams[%d]", i), &e.Streams[i].Stream})
		}
	}
	for i := range e.Classes {
		if e.Classes[i].Name != class {
			continue
		}
		for k := range e.Classes[i].Streams {
			out = append(out, PlacedStream{fmt.Sprintf("classes[%d].streams[%d]", i, k), &e.Classes[i].Streams[k]})
		}
	}
	return out
}

// DeviceStream is a stream as the evaluator knows it: with its device.
type DeviceStream struct {
	// Device is the one that sends this stream.
	Device string `yaml:"device" cfg:"required"`
	Stream `yaml:",inline"`
}

// maxExpr bounds Program.Expr, bytes.
const maxExpr = 16 << 10

// A Program is a computation on encrypted windows.
type Program struct {
	Name string `yaml:"name" cfg:"required"`
	// Expr is the expression, such as "mean(x)".
	Expr string `yaml:"expr"`
	// Model is evaluated in place of an expression.
	Model *ProgramModel `yaml:"model"`
	// For is the class whose devices each have a result of their own, or one together; empty:
	// none.
	For string `yaml:"for"`
	// Inputs maps each variable of Expr, or each feature of Model, to "device/stream/channel", with For to
	// "stream/channel".
	Inputs map[string]string `yaml:"inputs" cfg:"required"`
	// Resolution of comparisons of samples, in the unit of what is compared: values nearer than that to a threshold are
	// undecided.
	Resolution float64 `yaml:"resolution"`
	// Topic of the results; empty means <prefix>/res/<name>.
	Topic string `yaml:"topic"`
	// Unit of the result, for display only.
	Unit string `yaml:"unit"`
}

// ProgramModel is a model of decision trees. Its features are channels of one stream of mode steps.
type ProgramModel struct {
	// File is what the library or interop/python/export_trees.py wrote.
	File string `yaml:"file" cfg:"required,path"`
	// Answer is what the key holder gets: AnswerClass or AnswerScore; by default the class of a classifier, and the
	// score of a regression.
	Answer string `yaml:"answer"`
	// Features are the names in Inputs of the model's columns, in their order; without it the names are those of the
	// file.
	Features []string `yaml:"features"`
	// Scale: scores are rounded to multiples of 1/Scale.
	Scale int `yaml:"scale"`
}

// The answers of models.
const (
	AnswerClass = "class" // the number of the class, from 0
	AnswerScore = "score" // what the library predicts: a number, or the probability of each class
)

// Join bounds how long and how many windows wait for the other inputs of a
// program.
type Join struct {
	Timeout Duration `yaml:"timeout"`
	Windows int      `yaml:"windows"`
}

// Limits bound what senders can make a receiver hold.
type Limits struct {
	Object     Size     `yaml:"object"`     // largest sealed object
	Pending    int      `yaml:"pending"`    // objects in reassembly, all senders
	Memory     Size     `yaml:"memory"`     // bytes in reassembly, all senders
	Reassembly Duration `yaml:"reassembly"` // age at which an incomplete object is dropped
}

// KeyHolder is the configuration of the one who reads results.
type KeyHolder struct {
	Version int    `yaml:"version"`
	Name    string `yaml:"name" cfg:"required"`
	Broker  Broker `yaml:"broker" cfg:"required"`
	// KeySet is the key set directory made by `hencedge keys new`.
	KeySet string `yaml:"key_set" cfg:"required,path"`
	// Evaluators are the signers whose results are accepted.
	Evaluators []Signer `yaml:"evaluators" cfg:"required"`
	// Receipts makes the key holder sign receipts for the results that it read,
	// which evaluators with "results: keyholder" wait for. State is the file
	// that remembers what was read over restarts.
	Receipts bool   `yaml:"receipts"`
	State    string `yaml:"state" cfg:"path"`
	// Programs limits which results are read; empty means all.
	Programs []string `yaml:"programs"`
	// Topics are the topics of programs that have one of their own, which Programs
	// alone does not find.
	Topics []string `yaml:"topics"`
	// Output is "table", "ndjson" or "csv".
	Output  string  `yaml:"output"`
	Limits  Limits  `yaml:"limits"`
	Log     Log     `yaml:"log"`
	Metrics Metrics `yaml:"metrics"`
	Traces  *Traces `yaml:"traces"`
	// Alerts are alarms on decrypted results; they need State.
	Alerts *Alerts `yaml:"alerts"`
	// History is the database of "results serve"; nil means the defaults.
	History *History `yaml:"history"`
	// Console is the page of "results serve"; nil means none.
	Console *Console `yaml:"console"`

	origin
}

// Log says what is logged to stderr.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // text or json
}

// Metrics says where metrics and health are served; an empty Listen means
// nowhere.
type Metrics struct {
	Listen string `yaml:"listen"` // host:port, or unix: and an absolute path
}

// Traces says where spans of windows go, by OTLP/JSON over HTTP; nil means nowhere.
type Traces struct {
	// URL is the whole address, which ends in /v1/traces as a rule.
	HTTP `yaml:",inline"`
	// Sample is the share of the windows that are traced, above 0 and at most 1. Roles with
	// the same share trace the same windows.
	Sample float64 `yaml:"sample"`
}

// Control says where a service answers `status` on this machine.
type Control struct {
	// Socket is the path of a local socket; by default control.sock in the
	// directory that the service manager made ($RUNTIME_DIRECTORY).
	Socket string `yaml:"socket" cfg:"path"`
}

// Input finds the stream and the channel index that an input of p names. Of a program for
// a class the stream has no device.
func (e *Evaluator) Input(p *Program, ref string) (*DeviceStream, int, error) {
	s, remedy := e.lookup(p.For, ref)
	if s == nil {
		return nil, 0, fmt.Errorf("%w: %q is no known channel: %s", ErrInvalid, ref, remedy)
	}
	return s, s.ChannelIndex(ref[strings.LastIndexByte(ref, '/')+1:]), nil
}

// lookup finds the stream of "device/stream/channel", or with a class of
// "stream/channel", or says what to write.
func (e *Evaluator) lookup(class, ref string) (*DeviceStream, string) {
	form, example := "device/stream/channel", "board1/env/cpu"
	streams := e.Streams
	if class != "" {
		form, example, streams = "stream/channel", "env/cpu", nil
		if c := e.Class(class); c != nil {
			for _, s := range c.Streams {
				streams = append(streams, DeviceStream{Stream: s})
			}
		}
	}
	var all []string
	for i := range streams {
		s := &streams[i]
		for _, ch := range s.Channels {
			id := strings.TrimPrefix(s.Device+"/"+s.Name+"/"+ch.Name, "/")
			if id == ref {
				return s, ""
			}
			all = append(all, id)
		}
	}
	if strings.Count(ref, "/") != strings.Count(form, "/") {
		return nil, "write " + form + ", such as " + firstOf(all, example)
	}
	if len(all) > 8 {
		if near := yamlx.Nearest(ref, all); near == "" {
			return nil, "list the channel under streams first"
		}
	}
	return nil, yamlx.SuggestValue(ref, all)
}

func firstOf(list []string, otherwise string) string {
	if len(list) > 0 {
		return list[0]
	}
	return otherwise
}

// NamedSecret is a reference with its place in a configuration.
type NamedSecret struct {
	Path   string // broker.password
	Secret Secret
}

// Secrets returns the references of the configuration that are set, in its order.
func (a *Agent) Secrets() []NamedSecret {
	list := []NamedSecret{{"broker.password", a.Broker.Password}}
	for i, in := range a.Inputs {
		at := fmt.Sprintf("inputs[%d].", i)
		if in.HTTP != nil {
			list = append(list, NamedSecret{at + "http.password", in.HTTP.Password}, NamedSecret{at + "http.token",
				in.HTTP.Token})
		}
		if in.MQTT != nil {
			list = append(list, NamedSecret{at + "mqtt.password", in.MQTT.Password})
		}
	}
	if t := a.Traces; t != nil {
		list = append(list, NamedSecret{"traces.password", t.Password}, NamedSecret{"traces.token", t.Token})
	}
	return slices.DeleteFunc(list, func(n NamedSecret) bool { return n.Secret == "" })
}

// Remote lets an operator change parts of an agent's configuration from afar, by
// a signed message. Without the section nothing can.
type Remote struct {
	// OperatorKey is the only key whose messages count.
	OperatorKey string `yaml:"operator_key" cfg:"required"`
	// Sections are the top-level keys that may be changed.
	Sections []string `yaml:"sections"`
	// Trial is the time within which the agent must reach the broker with a new
	// configuration; else it goes back to the one before.
	Trial Duration `yaml:"trial"`
}

// RemoteSections returns the sections that can be opened to changes from afar. The
// others say whom this device trusts, what it runs and what it reads: they are
// changed on the device.
func RemoteSections() []string { return []string{"streams", "queue", "log", "stop_timeout"} }

// Input returns the input with this name, or nil.
func (a *Agent) Input(name string) *Input {
	for i := range a.Inputs {
		if a.Inputs[i].Name == name {
			return &a.Inputs[i]
		}
	}
	return nil
}
