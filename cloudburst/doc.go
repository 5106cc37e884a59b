// Package cloudburst is the contract between sbatchd and whatever rents it
// machines: a cloud, a marketplace, or this machine itself (provider/local).
//
//	wants ──► price ──► offer ──► Provider.Create ──► Instance ──► node
//	                                     ▲
//	               pool (ledger, reaper) ┘   Provider.List is the truth
//
// A provider is one folder below provider/. It registers a [Driver] in its
// init function and implements [Provider], four methods. What only some clouds
// can do (announce reclaims, end a forgotten machine by themselves) is an
// optional interface found by type assertion. Nothing outside a provider's
// folder mentions its name.
//
// Rules every provider keeps, checked by providertest:
//
//   - Create is idempotent by Request.Tag, also when two calls run at once and
//     when an earlier call failed after the machine had really been made.
//   - List returns every instance that carries a tag of ours, in every state,
//     paged to the end. An instance is gone when List no longer shows it or
//     shows it in state Gone; nothing else is proof.
//   - Delete of what is gone is success.
//   - No retry, no sleep and no cache inside: the caller paces. Errors are the
//     ones of this package, wrapped; they never carry a secret.
//
// The package holds no goroutine, reads no clock and never imports the
// controller.
package cloudburst
