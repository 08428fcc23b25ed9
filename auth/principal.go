package auth

// Principal is somebody who proved to be who they say, and what they may do. It
// follows the credentials in effect: after a reload its grants are the new ones,
// and none when its line is gone or its secret has changed. A nil Principal is
// Anonymous: authentication is off.
type Principal struct {
	name string
	// source is nil for Anonymous alone.
	source *Credentials
	// hash is that of the secret it proved to have.
	hash string
	all  bool
}

// Anonymous may do everything: it stands for everybody when authentication is off.
func Anonymous() *Principal { return &Principal{name: anonymousName, all: true} }

// anonymousName cannot be in a file: no name there has brackets.
const anonymousName = "(anonymous)"

// Name is the name in the credentials file, or "(anonymous)".
func (p *Principal) Name() string {
	if p == nil {
		return anonymousName
	}
	return p.name
}

// Allows says whether the principal may do this with the streams of the tenant,
// now. It costs a map look-up: ask again for every request and every page. The
// tenant "" is covered by a grant on all tenants alone.
func (p *Principal) Allows(action Action, tenant string) bool {
	if p == nil || p.all {
		return true
	}
	if p.source == nil {
		return false
	}
	entry := p.source.table.Load().named[p.name]
	return entry != nil && entry.hash.text == p.hash && entry.allows(action, tenant)
}
