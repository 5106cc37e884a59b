// Package checkpoint saves a job's checkpoint directory in a store, and puts
// the newest complete one back.
//
// The agent calls it around a reclaim and at intervals; the controller calls it
// to list, to prune, and to serve its own folder to agents (Serve). It runs no
// hooks and sends no signals: that is the agent's part.
//
// A store holds objects under
//
//	<cluster uuid>/<job>/run-<restart>              a run of the job has begun
//	<cluster uuid>/<job>/<number>/claim             one attempt owns this number
//	<cluster uuid>/<job>/<number>/data/<index>      a file's content
//	<cluster uuid>/<job>/<number>/manifest.json     written last
//
// with six digits for number, index and restart. A checkpoint is complete when
// its manifest exists and every object that it names is there with its size. A
// file that is in the previous complete checkpoint with the same hash is not
// sent again: the manifest names the older object, and Prune keeps it.
//
// Decisions. Numbers are taken by creating the claim, which only one attempt
// can (If-None-Match on S3), so an attempt that was cut leaves a hole, never a
// mixture. What is uploaded is what is hashed, in one pass, so a file that
// changes under us is saved as it was read. Restore falls back to an older
// checkpoint only when the newer one is damaged, not when the store is out of
// reach: then it fails, and the caller tries again. Refused: one tar per
// checkpoint (nothing could be left out of the next), and a chunk store as of
// backup programs (much machinery for directories that hold a few large files).
package checkpoint
