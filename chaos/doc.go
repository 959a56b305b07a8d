// Package chaos holds a test that runs the real programs, agent, evaluator and
// key holder, against real brokers through proxies that misbehave, kills them,
// fills and damages disks and steps clocks, and then counts samples: every one
// that was read must be in exactly one decrypted result, in order. Without faults
// it plays a recording through compact windows.
//
// `make chaos ROUNDS=1000` runs it; without HENCEDGE_CHAOS_ROUNDS a short form
// runs with the other tests. docs/delivery.md says what is promised.
package chaos
