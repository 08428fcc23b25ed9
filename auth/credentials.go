package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the bounds of verification. The zero value means the defaults.
type Options struct {
	// DerivationsMax is how many hashes are derived at once. Default: half of
	// GOMAXPROCS, at least 1 and at most 2, so that wrong secrets leave
	// processors to those who have the right one.
	DerivationsMax int
	// WaitingMax is how many callers wait for that at most; more are told that
	// the server is busy. Default 1024.
	WaitingMax int
	// WaitMax is how long one of them waits at most. Default 10 s.
	WaitMax time.Duration
}

func (o Options) withDefaults() Options {
	if o.DerivationsMax <= 0 {
		o.DerivationsMax = max(1, min(2, runtime.GOMAXPROCS(0)/2))
	}
	if o.WaitingMax <= 0 {
		o.WaitingMax = 1024
	}
	if o.WaitMax <= 0 {
		o.WaitMax = 10 * time.Second
	}
	return o
}

// Credentials are what a credentials file says. They are safe for concurrent use.
type Credentials struct {
	path      string
	options   Options
	table     atomic.Pointer[table]
	reloading sync.Mutex

	// slots holds one value per derivation under way.
	slots    chan struct{}
	waiting  atomic.Int64
	counters counters
	// deriveHash is derive, unless a test counts or holds derivations.
	deriveHash func(secret string, salt []byte, iterations int) ([]byte, error)
}

// counters count verifications by how they ended.
type counters struct{ derived, cached, fast, denied, busy atomic.Uint64 }

// Stats are counts since Load.
type Stats struct {
	// Principals is how many the file in effect has.
	Principals int
	// Derived is how many hashes were derived, Cached how many verifications needed
	// none since the secret had been found right before, and Fast how many were
	// against a hash of the fast scheme.
	Derived, Cached, Fast uint64
	// Denied and Busy are how many verifications ended in a DeniedError or a
	// BusyError.
	Denied, Busy uint64
}

// table is a credentials file in effect. Apart from the digests in its entries,
// it does not change.
type table struct {
	named map[string]*entry
	// ordered are the entries as the file has them.
	ordered []*entry
	// key makes the digests of secrets; random, known to this table and to those
	// that replace it.
	key [sha256.Size]byte
}

type entry struct {
	line
	// proved has the digest of the secret that was found right, or nil. A reload that
	// leaves name and hash as they are hands it on.
	proved *atomic.Pointer[[sha256.Size]byte]
}

// Load reads a credentials file with the default Options. The error is a
// *FileError that lists everything that is wrong.
func Load(path string) (*Credentials, error) { return LoadWith(path, Options{}) }

// LoadWith is Load with bounds of one's own.
func LoadWith(path string, options Options) (*Credentials, error) {
	options = options.withDefaults()
	t, err := readTable(path, nil)
	if err != nil {
		return nil, err
	}
	c := &Credentials{
		path: path, options: options,
		slots: make(chan struct{}, options.DerivationsMax), deriveHash: derive,
	}
	c.table.Store(t)
	return c, nil
}

// Reload reads the file again. Principals verified before follow the new file, and
// those whose name and hash are as they were need no second derivation. When the file
// cannot be used, the error is a *FileError and nothing changes.
func (c *Credentials) Reload() error {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	t, err := readTable(c.path, c.table.Load())
	if err != nil {
		return err
	}
	c.table.Store(t)
	return nil
}

// Listed is a principal as a list shows it.
type Listed struct {
	Name string
	// Grants have the form of the file.
	Grants []string
	// Scheme is "sha256" for a secret that was made, "pbkdf2-sha256" for one that was
	// given. Iterations are what verifying the latter costs, 0 for the former.
	Scheme     string
	Iterations int
	// Line counts from 1.
	Line int
}

// List gives the principals in the order of the file.
func (c *Credentials) List() []Listed {
	var list []Listed
	for _, e := range c.table.Load().ordered {
		listed := Listed{Name: e.name, Scheme: e.hash.scheme(), Iterations: e.hash.iterations, Line: e.number}
		for _, g := range e.grants {
			listed.Grants = append(listed.Grants, g.String())
		}
		list = append(list, listed)
	}
	return list
}

// Stats gives the counts.
func (c *Credentials) Stats() Stats {
	return Stats{
		Principals: len(c.table.Load().named),
		Derived:    c.counters.derived.Load(), Cached: c.counters.cached.Load(), Fast: c.counters.fast.Load(),
		Denied: c.counters.denied.Load(), Busy: c.counters.busy.Load(),
	}
}

// readTable reads a table that takes the place of before, nil for none.
func readTable(path string, before *table) (*table, error) {
	file, err := readFile(path)
	if err != nil {
		return nil, err
	}
	lines, problems := parse(file.text)
	if len(problems) == 0 {
		problems = needPrincipals(lines)
	}
	if len(problems) > 0 {
		return nil, &FileError{Path: file.path, Problems: problems}
	}
	return newTable(lines, before), nil
}

func newTable(lines []line, before *table) *table {
	t := &table{named: make(map[string]*entry, len(lines))}
	if before != nil {
		t.key = before.key
	} else {
		_, _ = rand.Read(t.key[:]) // never fails: it ends the process instead
	}
	for _, l := range lines {
		e := &entry{line: l, proved: new(atomic.Pointer[[sha256.Size]byte])}
		if before != nil {
			if was := before.named[l.name]; was != nil && was.hash.text == l.hash.text {
				e.proved = was.proved
			}
		}
		t.named[l.name] = e
		t.ordered = append(t.ordered, e)
	}
	return t
}

// digest is what is remembered of a name and a secret. The length in front keeps
// two pairs with the same letters apart.
func (t *table) digest(name, secret string) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, t.key[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
	mac.Write([]byte(name))
	mac.Write([]byte(secret))
	mac.Sum(sum[:0])
	return sum
}

// decoy is the hash that an unknown name is compared with, so that it costs what
// a known one costs: that of some entry, always the same one for a name.
func (t *table) decoy(name string) secretHash {
	sum := t.digest(name, "")
	return t.ordered[binary.BigEndian.Uint64(sum[:8])%uint64(len(t.ordered))].hash
}

func (e *entry) allows(action Action, tenant string) bool {
	for _, g := range e.grants {
		if g.allows(action, tenant) {
			return true
		}
	}
	return false
}

// provedBy says that a secret with this digest was found right before.
func (e *entry) provedBy(digest [sha256.Size]byte) bool {
	before := e.proved.Load()
	return before != nil && hmac.Equal(before[:], digest[:])
}
