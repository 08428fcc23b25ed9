// Package budget bounds bytes that are held at a time: appends that are staged, requests
// and responses that are under way. It knows nothing of what they are for, and nothing
// of whose they are.
package budget
