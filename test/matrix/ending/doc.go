// Package ending says by which signals the programs of the matrix are asked to end. They
// end in order: a host has its sysctls back, disks and logs are removed or named.
package ending
