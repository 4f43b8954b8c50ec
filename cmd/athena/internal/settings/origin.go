// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/athena-go/athena/cluster"
	"github.com/athena-go/athena/cmd/athena/internal/cli"
)

// Annotations of a flag that something else than the command line has set.
const (
	byVariable = "variable" // the name of the variable
	byFile     = "file"     // "FILE:LINE" of its key, then of each element where it is a list
)

// origin says where the value of a flag comes from.
type origin struct {
	from string // "default", "file", "env" or "flag"
	at   string // FILE:LINE, the variable or the flag; empty for a default
}

// originOf is where the value of a flag comes from.
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

// Given names a flag by what gave its value, where a fault begins with it: its
// variable, its place in the file, else the flag itself, which also stands for what
// nobody gave.
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

// alsoGiven is given in the midst of a sentence.
func alsoGiven(flags *pflag.FlagSet, flag string) string {
	if o := originOf(flags, flag); o.from == "file" {
		return fmt.Sprintf("%s (%s)", flag, o.at)
	}
	return Given(flags, flag)
}

// elementOf names one element of a list, as given does.
func elementOf(flags *pflag.FlagSet, flag string, index int) string {
	name := Given(flags, flag)
	if f := flags.Lookup(flag); originOf(flags, flag).from == "file" {
		// The first place is that of the whole list.
		if places := f.Annotations[byFile]; index+1 < len(places) {
			name = places[index+1] + ": " + flag
		}
	}
	return fmt.Sprintf("%s[%d]", name, index)
}

// isDefaultTiming reports whether a flag is a timing that nobody gave.
func isDefaultTiming(flags *pflag.FlagSet, flag string) bool {
	return isTiming(flag) && originOf(flags, flag).from == "default"
}

func isTiming(flag string) bool {
	return slices.ContainsFunc(Timings(new(cluster.Config)), func(t Timing) bool {
		return t.Flag == flag
	})
}

// fromFile sets each flag that nothing else has, from the values of a file.
func fromFile(flags *pflag.FlagSet, name string, values []fileValue) error {
	for _, v := range values {
		if flags.Changed(v.flag) {
			continue
		}
		var places []string
		for i, text := range v.texts {
			if err := flags.Set(v.flag, text); err != nil {
				return fmt.Errorf("%s:%d: %w", name, v.lines[i], err) // parseFile took it
			}
			places = append(places, fmt.Sprintf("%s:%d", name, v.lines[i]))
		}
		if err := flags.SetAnnotation(v.flag, byFile, places); err != nil {
			return err
		}
	}
	return nil
}

// MaxFaults is how many faults are told at once.
const MaxFaults = 50

// fault is something wrong with the settings. Its text begins with where it is.
type fault struct {
	flag string // whose value is not known because of it; empty where it is of none
	err  error
}

// faults collects what is wrong with the settings.
type faults struct {
	flags *pflag.FlagSet
	list  []error
	// broken are flags whose values could not be read: what else would be said of
	// them follows from that.
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

// isBroken reports whether the value of one of these flags is not known.
func (f *faults) isBroken(flags ...string) bool {
	return slices.ContainsFunc(flags, func(one string) bool { return slices.Contains(f.broken, one) })
}

// checkThat wants that ok holds for the value of a flag.
func (f *faults) checkThat(ok bool, flag, format string, args ...any) {
	if !ok && !f.isBroken(flag) {
		f.list = append(f.list, fmt.Errorf(Given(f.flags, flag)+format, args...))
	}
}

// joinedErr is a usageError of all faults; nil where there are none.
func (f *faults) joinedErr() error {
	switch n := len(f.list); {
	case n == 0:
		return nil
	case n > MaxFaults:
		more := fmt.Errorf("and %d faults more, --config names the file of most", n-MaxFaults)
		return cli.Usage(errors.Join(append(slices.Clone(f.list[:MaxFaults]), more)...))
	default:
		return cli.Usage(errors.Join(f.list...))
	}
}
