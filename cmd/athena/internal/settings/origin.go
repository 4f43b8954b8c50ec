// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// Annotations of a flag set by a variable or by the file.
const (
	byVariable = "variable" // name of the variable
	byFile     = "file"     // FILE:LINE of the key, then of each element of a list
	inFile     = "in file"  // FILE:LINE and value of a key that a flag or a variable overrides
)

// origin describes where a value comes from.
type origin struct {
	from string // "default", "file", "env" or "flag"
	at   string // FILE:LINE, the variable or the flag; empty for a default
}

// originOf returns the origin of the value of a flag.
func originOf(flags *pflag.FlagSet, flag string) origin {
	f := flags.Lookup(flag)
	switch {
	case f == nil || !f.Changed:
		return origin{from: "default"}
	case f.Annotations[byVariable] != nil:
		return origin{"env", f.Annotations[byVariable][0]}
	case f.Annotations[byFile] != nil:
		return origin{"file", f.Annotations[byFile][0]}
	default:
		return origin{"flag", "--" + flag}
	}
}

// Given returns how to name a flag at the beginning of a fault: by the variable or the place in the
// file that set the flag. If neither set it, Given returns the flag itself, even if the flag has
// its default value.
func Given(flags *pflag.FlagSet, flag string) string {
	switch o := originOf(flags, flag); o.from {
	case "env":
		return o.at
	case "file":
		return o.at + ": " + flag
	default:
		return "--" + flag
	}
}

// alsoGiven is like Given, for use within a sentence.
func alsoGiven(flags *pflag.FlagSet, flag string) string {
	if o := originOf(flags, flag); o.from == "file" {
		return fmt.Sprintf("%s (%s)", flag, o.at)
	}
	return Given(flags, flag)
}

// elementOf is like Given, for one element of a list.
func elementOf(flags *pflag.FlagSet, flag string, index int) string {
	name := Given(flags, flag)
	if f := flags.Lookup(flag); originOf(flags, flag).from == "file" {
		// places[0] is the place of the whole list, and elements follow.
		if places := f.Annotations[byFile]; index+1 < len(places) {
			name = places[index+1] + ": " + flag
		}
	}
	return fmt.Sprintf("%s[%d]", name, index)
}

// isDefaultTiming reports whether a flag is a timing that has its default value.
func isDefaultTiming(flags *pflag.FlagSet, flag string) bool {
	return isTiming(flag) && originOf(flags, flag).from == "default"
}

func isTiming(flag string) bool {
	return slices.ContainsFunc(Timings(new(cluster.Config)), func(t Timing) bool {
		return t.Flag == flag
	})
}

// Override is a key of the configuration file that has no effect.
type Override struct {
	Key, Text string // the key and its value
	At        string // FILE:LINE
	By        string // the flag or the variable that overrides the key
}

// Overrides returns the keys of the configuration file that flags or variables override.
func Overrides(flags *pflag.FlagSet) (all []Override) {
	flags.VisitAll(func(f *pflag.Flag) {
		if key := f.Annotations[inFile]; key != nil {
			all = append(all, Override{f.Name, key[1], key[0], originOf(flags, f.Name).at})
		}
	})
	return all
}

// fromFile applies the values of a file to the flags that neither the command line nor a variable
// has set, and notes the others.
func fromFile(flags *pflag.FlagSet, name string, values []fileValue) error {
	for _, v := range values {
		if flags.Changed(v.flag) {
			overridden := []string{v.place(name, 0), strings.Join(v.texts, ",")}
			if err := flags.SetAnnotation(v.flag, inFile, overridden); err != nil {
				return err
			}
			continue
		}
		var places []string
		for i, text := range v.texts {
			if err := flags.Set(v.flag, text); err != nil {
				return fmt.Errorf("%s:%d: %w", name, v.lines[i], err) // impossible: parseFile accepted it
			}
			places = append(places, v.place(name, i))
		}
		if err := flags.SetAnnotation(v.flag, byFile, places); err != nil {
			return err
		}
	}
	return nil
}

// MaxFaults is the maximum number of faults that one error lists.
const MaxFaults = 50

// fault is an error in the settings. Its text starts with its place.
type fault struct {
	flag string // the flag whose value could not be read; may be empty
	err  error
}

// faults collects the errors in the settings.
type faults struct {
	flags *pflag.FlagSet
	list  []error
	// broken contains the flags whose values could not be read. Other faults of these flags are
	// consequences and are suppressed.
	broken []string
}

func (f *faults) addAll(all ...fault) {
	for _, one := range all {
		f.list = append(f.list, one.err)
		if one.flag != "" {
			f.broken = append(f.broken, one.flag)
		}
	}
}

// isBroken reports whether the value of any of these flags could not be read.
func (f *faults) isBroken(flags ...string) bool {
	return slices.ContainsFunc(flags, func(one string) bool { return slices.Contains(f.broken, one) })
}

// checkThat adds a fault for the flag if ok is false.
func (f *faults) checkThat(ok bool, flag, format string, args ...any) {
	if !ok && !f.isBroken(flag) {
		f.list = append(f.list, fmt.Errorf(Given(f.flags, flag)+format, args...))
	}
}

// joinedErr returns a cli.UsageError with all faults, or nil if there are none.
func (f *faults) joinedErr() error {
	switch n := len(f.list); {
	case n == 0:
		return nil
	case n > MaxFaults:
		more := fmt.Errorf("and %d more errors", n-MaxFaults)
		return cli.Usage(errors.Join(append(slices.Clone(f.list[:MaxFaults]), more)...))
	default:
		return cli.Usage(errors.Join(f.list...))
	}
}
