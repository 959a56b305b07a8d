//go:build race

package agent

const underRace = true // sync.Pool then drops some of what it is given
