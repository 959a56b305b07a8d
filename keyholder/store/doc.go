// Package store keeps decrypted results in a database, each exactly once.
//
// A result goes from file to file in this order, and each step is on disk before the next:
//
//	inbox -> alarms -> row in the database -> record of what was handed on -> out of the inbox
//
// Two rules follow from that, whatever is killed in between and whichever disk is full:
//
//   - None is lost. A result leaves the inbox only after the row was committed and flushed
//     (SQLite: write-ahead log with synchronous=FULL; PostgreSQL: synchronous_commit and
//     fsync). Add returns nil after that, and not
//     before.
//   - None is doubled. A row has the identity of its result (keyholder.Result.Identity), which
//     is unique in the table. A result that comes up again after a kill changes nothing. That
//     can only be one of the newest object, since the next one waits for the record; so
//     retention never removes rows of the newest object.
//
// One process writes: SQLite has a locked file beside it, PostgreSQL an advisory lock of the
// connection that writes. Others may read at the same time.
package store
