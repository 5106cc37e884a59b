// Package output keeps what jobs print and brings it to the users' files.
//
// launch appends what agents send (Spool.Append) and prepares and finishes
// targets; the REST server reads (Spool.Follow). The copying is done by a
// helper process under the job's uid, gid and groups: the controller itself
// never opens a path that a user chose.
//
// A spool is a file <job>.<restart>.<stream>; its size is what was acknowledged
// to the agent. Beside it lies <spool>.copy while it is being copied, a log of
// where its bytes go in the user's file, and <spool>.copied once all are there.
// <spool>.limit marks a spool that JobLogLimit cut.
//
// Decisions. Bytes are addressed by offset on both sides, never by "append":
// that a piece was written before a crash needn't be known, it is written again
// at the same place. Where a run of bytes begins in the user's file (an extent)
// is on the disk before its first byte is written. The file is the user's: when
// it was cut, replaced or appended to by others, a new extent begins at its
// end. Refused: O_APPEND (can't be repeated), fsync per line (the log of
// progress is only a hint), and a thread under the user's uid inside the
// controller (a dead NFS server would hold it).
package output
