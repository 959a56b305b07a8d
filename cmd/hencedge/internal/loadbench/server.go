package loadbench

// server is a broker in this process.
type server interface {
	URL() string
	Close() error
}
