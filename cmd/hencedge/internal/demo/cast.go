package demo

import "github.com/hencedge/hencedge/keyholder"

// Cast is who plays.
type Cast struct {
	Params   string    `json:"params"`
	LogN     int       `json:"logN"`
	Backend  string    `json:"backend"`
	Device   string    `json:"device"` // of the backend
	Broker   string    `json:"broker"`
	Samples  int       `json:"samples"`
	Interval float64   `json:"interval_seconds"`
	Channels []Channel `json:"channels"`
	Programs []Program `json:"programs"`
	Left     []string  `json:"left_out,omitempty"` // programs that do not fit the parameters, with the reason
}

// Channel is a sensor in use.
type Channel struct {
	Name  string     `json:"name"`
	Unit  string     `json:"unit"`
	Range [2]float64 `json:"range"`
}

// Program is a program in use with its promise.
type Program struct {
	Name    string  `json:"name"`
	Channel string  `json:"channel"`
	Expr    string  `json:"expr"`
	Unit    string  `json:"unit,omitempty"`
	Depth   int     `json:"depth"`
	Bound   float64 `json:"bound"`
}

// Row is one result.
type Row struct {
	Window    int       `json:"window"` // from 1
	Channel   string    `json:"channel"`
	Program   string    `json:"program"`
	Unit      string    `json:"unit,omitempty"`
	Decrypted []float64 `json:"decrypted"`
	Truth     []float64 `json:"truth"`
	Error     float64   `json:"error"` // largest |decrypted - truth|
	Bound     float64   `json:"bound"` // promised
	OK        bool      `json:"ok"`    // Error is within Bound

	Uploaded   int     `json:"bytes"`        // sealed window, shared by all programs of the window
	Downloaded int     `json:"result_bytes"` // sealed result
	Encrypt    float64 `json:"encrypt_ms"`
	Evaluate   float64 `json:"evaluate_ms"`
	Latency    float64 `json:"latency_ms"` // from the window's last sample to its decrypted result

	result *keyholder.Result
}
