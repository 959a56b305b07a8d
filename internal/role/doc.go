// Package role holds the machinery that every role of the program needs: the
// agent, the evaluator and the key holder.
package role
