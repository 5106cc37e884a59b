// Package agentapi is the agent link: the messages an agent and the controller
// exchange, and what both sides need to speak them (certificates, join tokens,
// dialing). The controller's half lives in sbatchd/launch, the node's half in
// runtime/agent; neither imports the other.
//
// The agent is always the TLS and gRPC client. With AgentLink=dial it opens the
// connection, with AgentLink=ssh the controller makes the instance listen and
// serves what is dialed there. Either way the same stream runs on any net.Conn.
//
// Decisions:
//   - Orders and reports are keyed (job, restart, step, epoch) and repeated until
//     acknowledged, so that a cut, a restart or a crash on either side is only a
//     delay. Orders carry an id, reports a sequence number.
//   - Output is addressed by offset and the spool's size is the acknowledgement;
//     neither side keeps another count that could disagree.
//   - A renewal of the fence is the heartbeat: the node counts from when it sent
//     the heartbeat that was answered, so its deadline is never later than the
//     controller's.
//   - Refused: a second connection for files. One stream's head-of-line blocking
//     is bounded by 64 KiB pieces, and gRPC calls share the connection.
package agentapi
