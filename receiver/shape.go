// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// shape is a type, prepared for decoding. It has the fields that msgpack encodes.
type shape struct {
	typ reflect.Type
	// opaque is set if msgpack decodes the value: with methods of the type, or because nothing in it
	// can change.
	opaque   bool
	compiled bool // false while the compiler is inside the type
	number   bool // an integer or a float
	hidden   bool // a struct with fields that are all unexported
	// dynamic is set if a value may hold an interface, or a value of its own type.
	dynamic bool
	// needsType is set if a value may hold a map whose keys are not strings, or a type that encodes
	// itself: only a receiver that knows the type can decode it.
	needsType bool
	elem, key *shape
	fields    []wireField
	names     map[string]*wireField // with alternative names
}

// wireField is a field of a struct or of the structs that it embeds.
type wireField struct {
	name  string // under which it is sent
	index []int
	shape *shape
}

// compiler prepares a type and the types in it. It collects what cannot be sent.
type compiler struct {
	root   string // name of the type
	shapes map[reflect.Type]*shape
	faults []error
}

// compileType returns the shape of a type, and an error if its values would not arrive as they
// were sent.
func compileType(t reflect.Type) (*shape, error) {
	c := compiler{root: t.String(), shapes: map[reflect.Type]*shape{}}
	s := c.compileElem(t, c.root)
	for changed := true; changed; {
		changed = false
		for _, s := range c.shapes {
			changed = s.inheritFlags() || changed
		}
	}
	for _, s := range c.shapes {
		if s.key != nil && s.key.dynamic {
			c.addFault(c.root, "the keys of %v hold interfaces, so they could arrive as other keys", s.typ)
		}
	}
	return s, errors.Join(c.faults...)
}

// inheritFlags takes over the flags of the shapes in s. It reports whether this changed s.
func (s *shape) inheritFlags() bool {
	dynamic, needsType := s.dynamic, s.needsType
	parts := []*shape{s.elem, s.key}
	for _, f := range s.fields {
		parts = append(parts, f.shape)
	}
	for _, in := range parts {
		if in != nil {
			s.dynamic, s.needsType = s.dynamic || in.dynamic, s.needsType || in.needsType
		}
	}
	return s.dynamic != dynamic || s.needsType != needsType
}

// addFault adds what is wrong with the value at path, which begins with the type of the event.
func (c *compiler) addFault(path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if path != c.root {
		text = path + ": " + text
	}
	c.faults = append(c.faults, errors.New(text))
}

// requireVisible adds a fault if nothing of a struct would be sent.
func (c *compiler) requireVisible(s *shape, path string) {
	if s.hidden {
		c.addFault(path, "%v has no exported field: none of its fields would be sent", s.typ)
	}
}

func (c *compiler) compileShape(t reflect.Type, path string) *shape {
	if s := c.shapes[t]; s != nil {
		s.dynamic = s.dynamic || !s.compiled
		return s
	}
	s := &shape{typ: t}
	c.shapes[t] = s
	defer func() { s.compiled = true }()
	if t.Kind() != reflect.Pointer {
		if encodes, decodes := methodsOf(t, msgpackCodings); encodes != nil || decodes != nil {
			s.opaque, s.needsType = true, t != reflect.TypeFor[time.Time]()
			c.compileMethods(t, path, encodes, decodes)
			return s
		}
	}
	switch t.Kind() {
	case reflect.Struct:
		c.compileFields(s, path)
	case reflect.Pointer:
		s.elem = c.compileElem(t.Elem(), path)
		if isNilable(t.Elem().Kind()) && !s.elem.opaque {
			c.addFault(path, "a %v that points to nil would arrive as nil: use %v", t, t.Elem())
		}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() != reflect.Uint8 { // otherwise it is sent as a binary
			s.elem = c.compileElem(t.Elem(), path+"[]")
		}
		s.opaque = t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[string]()
	case reflect.Map:
		s.key, s.elem = c.compileElem(t.Key(), path+"[key]"), c.compileElem(t.Elem(), path+"[]")
		if t.Key().Kind() == reflect.Pointer {
			c.addFault(path, "the keys of %v would arrive as other pointers", t)
		}
		s.needsType = t.Key().Kind() != reflect.String
		s.opaque = t.Key() == reflect.TypeFor[string]() && t.Elem() == t.Key()
	case reflect.Interface:
		if s.dynamic = t.NumMethod() == 0; !s.dynamic && t != reflect.TypeFor[error]() {
			c.addFault(path, "a receiver cannot know which type is in a %v", t)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		s.number = true
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.Uintptr,
		reflect.UnsafePointer:
		c.addFault(path, "a %v cannot be sent", t)
	}
	return s
}

func (c *compiler) compileElem(t reflect.Type, path string) *shape {
	s := c.compileShape(t, path)
	c.requireVisible(s, path)
	return s
}

// compileMethods checks a type that msgpack encodes or decodes with methods of the type.
func (c *compiler) compileMethods(t reflect.Type, path string, encodes, decodes *coding) {
	ofMsgpack := []*coding{&customized, &asMsgpack}
	switch {
	case encodes == decodes || t == reflect.TypeFor[time.Time]():
	case slices.Contains(ofMsgpack, encodes), slices.Contains(ofMsgpack, decodes):
	default:
		c.addFault(path, "%v needs both or none of %s", t, cmp.Or(encodes, decodes).name)
	}
	if err := checkMethods(t, encodes, decodes); err != nil {
		c.addFault(path, "%v", err)
	}
}

func isNilable(k reflect.Kind) bool {
	return k == reflect.Pointer || k == reflect.Slice || k == reflect.Map || k == reflect.Interface
}

// compileFields adds the fields of a struct in the order in which msgpack encodes them.
func (c *compiler) compileFields(s *shape, path string) {
	s.names = map[string]*wireField{}
	visible := false
	for i := range s.typ.NumField() {
		f := s.typ.Field(i)
		name, options := parseTag(f.Tag.Get("msgpack"))
		own := wireField{name: cmp.Or(name, f.Name), index: f.Index}
		at := path + "." + f.Name
		_, separate := options["noinline"]
		switch embeds := f.Anonymous && !separate; {
		case name == "-":
			visible = true // its omission is intended
		case !f.Anonymous && !f.IsExported():
			s.hidden = s.hidden || f.Name != "_"
		case embeds && f.Type.Kind() == reflect.Pointer:
			c.addFault(at, "an embedded pointer that is nil would arrive as another value: "+
				"embed the value, or give the field a name")
		case embeds && f.Type.Kind() == reflect.Struct && c.embedFields(s, own, f.Type, options, at):
			visible = visible || f.Type.NumField() == 0
		case !f.IsExported():
			c.addFault(at, "receivers cannot set an embedded field that is not exported: "+
				"give it a name")
		default:
			own.shape = c.compileElem(f.Type, at)
			c.addField(s, own, at)
			if alias := options["alias"]; alias != "" {
				s.names[alias] = s.names[own.name]
			}
		}
	}
	s.hidden = s.hidden && !visible && len(s.fields) == 0
}

func (c *compiler) addField(s *shape, f wireField, path string) {
	if slices.ContainsFunc(s.fields, func(other wireField) bool { return other.name == f.name }) {
		c.addFault(path, "two fields of %v are sent as %q: rename one, or give an embedded field a name",
			s.typ, f.name)
	}
	s.fields = append(s.fields, f)
	s.names[f.name] = &f
}

// embedFields adds the fields of a struct that s embeds. It returns false if msgpack encodes this
// struct as one field.
func (c *compiler) embedFields(
	s *shape, f wireField, t reflect.Type, options map[string]string, path string,
) bool {
	f.shape = c.compileShape(t, path)
	_, always := options["inline"]
	isShadowed := func(f wireField) bool { return s.names[f.name] != nil }
	if f.shape.opaque || !always && slices.ContainsFunc(f.shape.fields, isShadowed) {
		return false
	}
	for _, in := range f.shape.fields {
		if !isShadowed(in) {
			in.index = slices.Concat(f.index, in.index)
			c.addField(s, in, path)
		}
	}
	s.hidden = s.hidden || f.shape.hidden
	s.names[f.name] = &f
	return true
}

// parseTag returns the name and the options of a tag `msgpack:"name,option,key:value"`.
func parseTag(tag string) (name string, options map[string]string) {
	options = map[string]string{}
	for i, part := range strings.Split(tag, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), ":")
		if i == 0 && !ok {
			name = key
			continue
		}
		options[key] = strings.Trim(value, "' ")
	}
	return name, options
}
