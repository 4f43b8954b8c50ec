// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
)

// Effective is the value of one flag as a node would use it.
type Effective struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"`         // default, file, env or flag
	At    string `json:"at,omitempty"` // FILE:LINE, the variable or the flag
	Text  string `json:"-"`            // the value in the syntax of the flag
}

// Effective returns all settings in the configuration c, which Read returned for f.
func (s *Settings) Effective(f *pflag.FlagSet, c cluster.Config) []Effective {
	insecure, anywhere := s.config.Insecure, s.config.InsecureAnywhere
	s.config = c.WithDefaults() // the flags in f point into s.config
	// If there is no secret, Read sets InsecureAnywhere to suppress a second fault.
	s.config.Insecure, s.config.InsecureAnywhere = insecure, anywhere
	var all []Effective
	for _, name := range Settable(Flags()) {
		o, flag := originOf(f, name), f.Lookup(name)
		all = append(all, Effective{name, valueOf(flag), o.from, o.at, flag.Value.String()})
	}
	for _, g := range s.groups {
		all = append(all, effectiveGroup(g)...)
	}
	return all
}

// valueOf returns the value of a flag for use in JSON. Durations are strings.
func valueOf(f *pflag.Flag) any {
	text := f.Value.String()
	switch f.Value.Type() {
	case "int":
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case "bool":
		return text == "true"
	case (seedList{}).Type(), (labelList{}).Type():
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	}
	return text
}
