// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// JSON is an event of which the sender knows the name and the fields, and not the
// type: a person or a script, by way of the admin API. It travels in the encoding of
// the cluster, so that a handler of the type of that name takes it as any other.
// Under msgpack an object becomes a map, a number without '.' and 'e' an integer,
// every other a float of 64 bits; a []byte takes the bytes of a string, a
// time.Duration nanoseconds. A time.Time, and a type with AppendBinary, have forms of
// their own that JSON has no word for: such an event is malformed where it arrives.
type JSON struct {
	Name string
	Text []byte // one JSON value
}

// value is what the text says, of maps, slices, strings, numbers, booleans and nil.
func (j JSON) value() (any, error) {
	if !validName(j.Name) {
		return nil, fmt.Errorf("name %q must have 1 to %d printable characters", j.Name, maxNameBytes)
	}
	d := json.NewDecoder(strings.NewReader(string(j.Text)))
	d.UseNumber() // an id of 64 bits is no float
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("no JSON value: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return counted(v)
}

// counted puts numbers in the place of their texts.
func counted(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		return numberOf(string(v))
	case []any:
		for i := range v {
			if v[i], err = counted(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = counted(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func numberOf(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n, nil
		}
		return nil, fmt.Errorf("number %.40s: a whole number must fit into 64 bits", text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %.40s: must fit into a float of 64 bits", text)
	}
	return f, nil
}
