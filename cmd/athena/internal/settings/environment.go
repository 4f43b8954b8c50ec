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

// EnvironmentPrefix is the prefix of the variables that set flags: ATHENA_DATA_DIR sets
// --data-dir.
const EnvironmentPrefix = "ATHENA_"

// serviceLink matches variables that container platforms set for a service named athena.
var serviceLink = regexp.MustCompile(
	`_SERVICE_(HOST|PORT)(_|$)|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_|$)|$)`)

// VariableOf returns the variable that sets a flag.
func VariableOf(flag string) string {
	return EnvironmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// FromEnvironment sets flags from variables that are not empty, except flags of the command line.
// If names are given, it sets only these flags. The error contains every fault.
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

// readVariables is like FromEnvironment, but returns a list of faults.
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

// Settable returns the names of the flags that a variable may set.
func Settable(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// ClientFlags are the flags of the verbs that query a node which a variable may set.
var ClientFlags = []string{
	"admin", "admin-ca", "admin-client-cert", "admin-client-key", "admin-token-file",
}

// Misspelled returns the unknown ATHENA_ variables in an environment of "NAME=value" entries, each
// with the known variable whose name is most similar. The known variables are those that a verb of
// athena reads, and those that athena sets for a command.
func Misspelled(environ []string) (found [][2]string) {
	var known []string
	for _, name := range Settable(Flags()) {
		known = append(known, VariableOf(name))
	}
	own := []string{VariableToken, VariableVersion, VariableRevision, VariableLock, VariableJob,
		VariableGroup}
	for _, name := range ClientFlags {
		own = append(own, VariableOf(name))
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvironmentPrefix) || slices.Contains(known, name) ||
			slices.Contains(own, name) || serviceLink.MatchString(name) {
			continue
		}
		found = append(found, [2]string{name, nearestWord(name, known)})
	}
	return found
}

// WarnMisspelled writes a warning for each variable that Misspelled returns.
func WarnMisspelled(w io.Writer, environ []string) {
	for _, found := range Misspelled(environ) {
		fmt.Fprintf(w, "athena: %s is ignored: unknown variable; did you mean %s?\n", found[0], found[1])
	}
}

func nearestWord(word string, known []string) string {
	return slices.MinFunc(known, func(a, b string) int {
		return editDistance(word, a) - editDistance(word, b)
	})
}

// editDistance returns the Levenshtein distance between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // value in the previous row and column
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

// athena lock, elect and group set these variables for their command.
const (
	VariableToken    = "ATHENA_TOKEN"
	VariableVersion  = "ATHENA_TOKEN_VERSION"
	VariableRevision = "ATHENA_TOKEN_REVISION"
	VariableLock     = "ATHENA_LOCK"
	VariableJob      = "ATHENA_JOB"
	VariableGroup    = "ATHENA_GROUP"
)
