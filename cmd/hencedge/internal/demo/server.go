package demo

// server is the broker of the demo.
type server interface {
	URL() string
	Close() error
}
