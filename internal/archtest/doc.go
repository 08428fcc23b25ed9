// Package archtest holds tests about the tree as a whole: who may import whom,
// whether documents match the code, and the style rules that can be checked. It
// exports nothing.
package archtest
