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

// JSON is an event whose sender knows its name and fields but not its Go type: a person or
// a script that uses the admin API. It is sent in the encoding of the cluster, so the
// handlers of the type with that name get it like any other event.
//
// Under msgpack, an object becomes a map, a number without '.' and 'e' an integer, and any other
// number a 64-bit float. No integer field takes a float, and a field of type float32 only one that
// it can hold exactly, such as 0.5. Write a []byte as a string, and a time.Duration in nanoseconds.
// JSON cannot express the binary form of a time.Time or of a type with AppendBinary: the receiver
// treats such an event as malformed.
type JSON struct {
	Name string
	Text []byte // one JSON value
}

// decode decodes the text into maps, slices, strings, numbers, bools and nil.
func (j JSON) decode() (any, error) {
	if !validName(j.Name) {
		return nil, fmt.Errorf("name %q must have 1 to %d printable characters", j.Name, maxNameBytes)
	}
	d := json.NewDecoder(strings.NewReader(string(j.Text)))
	d.UseNumber() // a float cannot represent every 64-bit id
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not a JSON value: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return convertNumbers(v)
}

// convertNumbers replaces each json.Number with an integer or a float.
func convertNumbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case json.Number:
		return parseNumber(string(v))
	case []any:
		for i := range v {
			if v[i], err = convertNumbers(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = convertNumbers(v[k]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func parseNumber(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return n, nil
		}
		return nil, fmt.Errorf("number %.40s: an integer must fit into 64 bits", text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("number %.40s: must fit into a 64-bit float", text)
	}
	return f, nil
}
