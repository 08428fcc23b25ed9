package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// The parts of CycloneDX 1.6 that say what is in a program.
type (
	bom struct {
		Format       string          `json:"bomFormat"`
		SpecVersion  string          `json:"specVersion"`
		SerialNumber string          `json:"serialNumber"`
		Version      int             `json:"version"`
		Metadata     bomMetadata     `json:"metadata"`
		Components   []bomComponent  `json:"components"`
		Dependencies []bomDependency `json:"dependencies"`
	}
	bomMetadata struct {
		Timestamp string       `json:"timestamp"`
		Component bomComponent `json:"component"`
	}
	bomComponent struct {
		Ref        string        `json:"bom-ref"`
		Type       string        `json:"type"`
		Name       string        `json:"name"`
		Version    string        `json:"version"`
		Hashes     []bomHash     `json:"hashes,omitempty"`
		Licences   []bomLicence  `json:"licenses,omitempty"`
		PURL       string        `json:"purl"`
		Properties []bomProperty `json:"properties,omitempty"`
	}
	bomHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	bomLicence struct {
		Licence struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	bomProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	bomDependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// components lists what a program is linked from. The list's own number is made from
// the program's bytes: the same program has the same list.
func components(p program, linked []module) ([]byte, error) {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	j, err := newJudge()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(binary)
	felixd := bomComponent{
		Type: "application", Name: "felixd", Version: p.version, PURL: "pkg:generic/felixd@" + p.version + "?arch=" + p.arch + "&os=linux",
		Hashes: []bomHash{{"SHA-256", fmt.Sprintf("%x", sum)}}, Properties: []bomProperty{{"revision", p.revision}},
	}
	felixd.Ref = felixd.PURL
	list := bom{
		Format: "CycloneDX", SpecVersion: "1.6", SerialNumber: "urn:uuid:" + uuid(sum[:]), Version: 1,
		Metadata: bomMetadata{p.time.Format(time.RFC3339), felixd},
	}
	top := bomDependency{Ref: felixd.Ref}
	for _, m := range linked {
		c, err := j.component(m)
		if err != nil {
			return nil, err
		}
		list.Components = append(list.Components, c)
		top.DependsOn = append(top.DependsOn, c.Ref)
	}
	list.Dependencies = []bomDependency{top}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(list)
	return b.Bytes(), err
}

// component is a module in the list. One that must not be linked is an error.
func (j judge) component(m module) (bomComponent, error) {
	names, err := j.licences(m)
	if err != nil {
		return bomComponent{}, err
	}
	purl := "pkg:golang/" + m.path + "@" + m.version
	c := bomComponent{Ref: purl, Type: "library", Name: m.path, Version: m.version, PURL: purl}
	for _, name := range names {
		var licence bomLicence
		licence.Licence.ID = name
		c.Licences = append(c.Licences, licence)
	}
	return c, nil
}

// uuid is a name made from a digest, version 8 of RFC 9562: numbers of a kind of one's
// own.
func uuid(digest []byte) string {
	b := append([]byte(nil), digest[:16]...)
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
