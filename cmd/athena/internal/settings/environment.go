// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// EnvironmentPrefix begins the names of the variables that stand for flags:
// ATHENA_DATA_DIR for --data-dir.
const EnvironmentPrefix = "ATHENA_"

// madeUp matches what container platforms put into the environment for a service
// called athena: it is no misspelled flag.
var madeUp = regexp.MustCompile(`_SERVICE_(HOST|PORT)(_|$)|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_|$)|$)`)

// VariableOf returns the variable that sets a flag.
func VariableOf(flag string) string {
	return EnvironmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FromEnvironment sets each flag that the command line did not, from its
// variable where there is one that is not empty; with names, these flags alone.
// An error names every fault.
func FromEnvironment(
	flags *pflag.FlagSet, getenv func(string) string, names ...string,
) error {
	if len(names) == 0 {
		names = Settable(flags)
	}
	f := faults{flags: flags}
	f.addAll(readVariables(flags, getenv, names)...)
	return f.joinedErr()
}

// readVariables is fromEnvironment with each fault by itself.
func readVariables(flags *pflag.FlagSet, getenv func(string) string, names []string) []fault {
	var found []fault
	for _, name := range names {
		variable := VariableOf(name)
		value := getenv(variable)
		if value == "" || flags.Changed(name) {
			continue
		}
		err := flags.Set(name, value)
		if err == nil {
			err = flags.SetAnnotation(name, byVariable, []string{variable})
		}
		if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = errors.New(wantedValues(bad))
		}
		if err != nil {
			found = append(found, fault{name, fmt.Errorf("%s=%q: %w", variable, value, err)})
		}
	}
	return found
}

// Settable names the flags that a variable may set.
func Settable(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// Misspelled finds variables of an environment, "NAME=value" each, that look as if
// they stood for a flag and stand for none, each with the nearest that does. run has
// the flags of all verbs that a variable sets: its variables are no mistake where
// another verb is used, nor are those that athena lock gives to a command.
func Misspelled(environ []string) (found [][2]string) {
	var known []string
	for _, name := range Settable(Flags()) {
		known = append(known, VariableOf(name))
	}
	own := []string{VariableToken, VariableVersion, VariableRevision, VariableLock, VariableJob}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvironmentPrefix) || slices.Contains(known, name) ||
			slices.Contains(own, name) || madeUp.MatchString(name) {
			continue
		}
		found = append(found, [2]string{name, nearestWord(name, known)})
	}
	return found
}

// WarnMisspelled tells where there is no log, or none yet, what misspelled found.
func WarnMisspelled(w io.Writer, environ []string) {
	for _, found := range Misspelled(environ) {
		fmt.Fprintf(w, "athena: %s is ignored: it stands for no flag; the nearest that does is %s\n",
			found[0], found[1])
	}
}

func nearestWord(word string, known []string) string {
	return slices.MinFunc(known, func(a, b string) int {
		return editDistance(word, a) - editDistance(word, b)
	})
}

// editDistance is how many characters must be put in, left out or changed to make a
// into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row before, one to the left
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// The variables of a command that runs while something is held.
const (
	VariableToken    = "ATHENA_TOKEN"
	VariableVersion  = "ATHENA_TOKEN_VERSION"
	VariableRevision = "ATHENA_TOKEN_REVISION"
	VariableLock     = "ATHENA_LOCK"
	VariableJob      = "ATHENA_JOB"
)
