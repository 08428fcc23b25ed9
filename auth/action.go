package auth

import "strings"

// Action is something a principal may be allowed to do with a tenant's streams.
// Each stands alone: Admin includes neither Read nor Write.
type Action uint8

// The actions.
const (
	// Read reads records and subscribes.
	Read Action = iota
	// Write publishes records.
	Write
	// Admin creates, changes and deletes streams, runs retention and deletes records.
	Admin

	actionCount
)

var actionNames = [actionCount]string{Read: "read", Write: "write", Admin: "admin"}

// String gives the word that the credentials file uses.
func (a Action) String() string {
	if a >= actionCount {
		return "unknown action"
	}
	return actionNames[a]
}

// actionOf finds the action of a word.
func actionOf(word string) (Action, bool) {
	for action, name := range actionNames {
		if name == word {
			return Action(action), true
		}
	}
	return 0, false
}

// actionList names all actions, for messages.
func actionList() string { return strings.Join(actionNames[:], ", ") }
