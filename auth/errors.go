package auth

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a credentials file.
type Problem struct {
	// Line counts from 1; 0 means the file as a whole.
	Line int
	// Text says what is wrong and what to do. It quotes no secret and no hash.
	Text string
}

// FileError refuses a credentials file, with everything that is wrong with it.
type FileError struct {
	Path     string
	Problems []Problem
	// Err is the cause when the file could not be read or written.
	Err error
}

// problemsShown is how many problems one message holds.
const problemsShown = 20

func (e *FileError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "credentials file %s", e.Path)
	for i, problem := range e.Problems {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		if i == problemsShown {
			fmt.Fprintf(&b, "; and %d more problems", len(e.Problems)-i)
			break
		}
		b.WriteString(separator)
		if problem.Line > 0 {
			fmt.Fprintf(&b, "line %d: ", problem.Line)
		}
		b.WriteString(problem.Text)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *FileError) Unwrap() error { return e.Err }

// DeniedError refuses credentials. It is the same for an unknown name, a wrong
// secret and a malformed token, so that it tells nobody which names exist.
type DeniedError struct {
	// Name is what the client called itself; it may be anything, also "".
	Name string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("wrong name or secret for %s", shown(e.Name))
}

// BusyError says that credentials were not looked at, since too many others are
// being verified. Trying again later may work.
type BusyError struct {
	// Waiting is how many were waiting already.
	Waiting int
	// Err is the context's error when the wait was ended by it, or by WaitMax, else
	// nil.
	Err error
}

func (e *BusyError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("gave up waiting for the verification of credentials: %v", e.Err)
	}
	return fmt.Sprintf("%d callers wait already for the verification of their credentials; try again later", e.Waiting)
}

// Unwrap gives the context's error.
func (e *BusyError) Unwrap() error { return e.Err }

// SecretError refuses a secret that is too weak or that a client could not send.
type SecretError struct{ Problem string }

func (e *SecretError) Error() string { return "the secret " + e.Problem }

// PrincipalError refuses to add a principal with such a name or such grants.
type PrincipalError struct{ Name, Problem string }

func (e *PrincipalError) Error() string {
	return fmt.Sprintf("the principal %s cannot be added: %s", shown(e.Name), e.Problem)
}

// TLSError refuses the TLS settings of a listener.
type TLSError struct {
	// What names the setting: "certificate", "key", "client CA".
	What string
	// File is the file it names; empty when it is not set.
	File    string
	Problem string
	Err     error
}

func (e *TLSError) Error() string {
	text := "TLS " + e.What
	if e.File != "" {
		text += " " + e.File
	}
	if e.Problem != "" {
		text += ": " + e.Problem
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *TLSError) Unwrap() error { return e.Err }

// ExposedError refuses a listener that others than this host can reach and that
// lets in everybody.
type ExposedError struct {
	// What names the listener, such as "http".
	What string
	// Addr is the address as it was set.
	Addr string
	// Reached says what makes it reachable.
	Reached string
	// Err is the cause when the address could not be judged.
	Err error
}

func (e *ExposedError) Error() string {
	text := fmt.Sprintf("the %s listener %q %s, and nothing asks its clients who they are: set --credentials-file or --tls-client-ca-file, or listen on 127.0.0.1, or accept with --insecure that everybody may do everything",
		e.What, e.Addr, e.Reached)
	if e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	return text
}

// Unwrap gives the cause.
func (e *ExposedError) Unwrap() error { return e.Err }
