package store

import "log/slog"

// Options say how a store is opened.
type Options struct {
	// Topics are the programs that are configured, with the topics of their results.
	Topics map[string]string
	// Packed are programs whose results go out in packs. They share one part of the store,
	// that of transport.PackProgram, which Topics then has instead of them.
	Packed map[string]bool
	// Reader names in words who has to take results.
	Reader string
	// Name is that of the evaluator, and State the path of its state, for messages.
	Name, State string
	// Mark is what the state has of its store; nil means that it has had none.
	Mark   *Mark
	Logger *slog.Logger
}
