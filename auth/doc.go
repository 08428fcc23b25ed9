// Package auth says who may do what: one credentials file, used by both front
// doors, and the TLS settings and exposure rule of their listeners.
//
// # What it owns
//
//   - The credentials file: its format, its permissions, its changes.
//   - Verification of a name and a secret, and of a bearer token, which is
//     "<name>.<secret>".
//   - Principals: a name and what it may do, per tenant.
//   - The TLS configuration of a listener, with its certificate reloaded when
//     the file changes.
//   - The rule that a listener that others can reach needs authentication, and the
//     one on the names under which a listener that asks nobody may be called.
//
// # What it never does
//
// It speaks no protocol, knows no stream, logs no secret and keeps none: the file
// holds salted hashes, of PBKDF2 for secrets that somebody chose and of SHA-256 for
// random ones that were made here, and memory holds those plus, per principal, one
// keyed digest of the secret that was last found right.
//
// # Invariants
//
//   - Credentials that cannot be read never replace those that could.
//   - A principal is bound to its line of the file. Once a reload finds that line
//     gone, or its hash changed, the principal may do nothing, whatever
//     connection still holds it.
//   - A file without principals is refused: it would lock everybody out.
//   - An unknown name costs the work of a wrong secret.
//   - Derivations under way, and callers that wait for one, are bounded. Whoever has a
//     secret that was made here waits for none, however many guess.
//
// # Locks
//
// Credentials.reloading serialises reloads; the table in effect is one atomic
// pointer to something immutable. The certificate of a listener has a lock of its
// own. Neither is held while waiting for another.
package auth
