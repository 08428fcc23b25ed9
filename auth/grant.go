package auth

import (
	"errors"
	"fmt"
	"strings"
)

// grant allows actions on the tenants that a pattern fits.
type grant struct {
	actions [actionCount]bool
	// tenant is the exact name, or what the name begins with.
	tenant string
	prefix bool
}

// parseGrant reads "action[,action...]:tenant", where the tenant may end with "*".
// Its errors go on from the words "grant 1", and quote nothing.
func parseGrant(text string) (grant, error) {
	var g grant
	actions, tenant, found := strings.Cut(text, ":")
	if !found {
		return g, errors.New("is not ACTIONS:TENANT, such as read,write:acme*")
	}
	for word := range strings.SplitSeq(actions, ",") {
		action, known := actionOf(word)
		if !known {
			return g, fmt.Errorf("has an action that is none of %s", actionList())
		}
		g.actions[action] = true
	}
	g.tenant, g.prefix = strings.CutSuffix(tenant, "*")
	if g.tenant == "" && !g.prefix {
		return g, errors.New("names no tenant; * means all of them")
	}
	if problem := nameProblem(g.tenant); g.tenant != "" && problem != "" {
		return g, errors.New("has a tenant that " + problem)
	}
	return g, nil
}

func (g grant) allows(action Action, tenant string) bool {
	if action >= actionCount || !g.actions[action] {
		return false
	}
	if g.prefix {
		return strings.HasPrefix(tenant, g.tenant)
	}
	return tenant == g.tenant
}

// String is the form of the file, with the actions in their order.
func (g grant) String() string {
	var words []string
	for action, granted := range g.actions {
		if granted {
			words = append(words, actionNames[action])
		}
	}
	text := strings.Join(words, ",") + ":" + g.tenant
	if g.prefix {
		text += "*"
	}
	return text
}
