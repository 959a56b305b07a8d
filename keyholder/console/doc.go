// Package console is the key holder's page: what results are decrypted to, live and over
// time, the devices that they are about, alarms, keys, and the proof of a single result.
//
// The page runs in the process that holds the secret key, so three rules hold:
//
//   - What leaves the process is what handlers build from public types: values, headers,
//     manifests. No handler reads a key file, and the secret key is in no type that they
//     know. TestNoSecretInResponses searches every response for its bytes.
//   - Whoever sees the page has a session. A session begins with a link that Invite has made
//     on this machine. The link works once and for a few minutes, and the session ends after
//     a configured time, or with the process.
//   - A session is that of a viewer, who reads, or of a holder, who may also silence and
//     acknowledge alarms, take sealed results away, and answer boards through a Desk.
//
// Results never wait for the page: Observe copies what it needs, and a browser that does not
// keep up loses updates, not results.
package console
