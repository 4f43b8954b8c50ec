// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"
)

// MaxFileBytes limits the size of a configuration file.
const MaxFileBytes = 1 << 20

// fileValue is the value of one flag in a configuration file.
type fileValue struct {
	flag  string
	key   string   // the key in the file, or empty if it equals flag
	texts []string // arguments of the flag, in order
	lines []int    // the line of each text; for a list, the first is the line of the key
}

// fileParser parses a configuration file, or one group in it. It maps the names of flags, without
// dashes, to values.
type fileParser struct {
	name   string         // name of the file, used in faults
	verb   string         // the verb of athena to which the flags belong
	flags  *pflag.FlagSet // each value is set here to check it
	keys   []string
	values []fileValue
	groups []fileGroup
	first  map[string]int // line of the first occurrence of a key
	faults []fault
}

// fileContent reads an entire regular file.
func fileContent(path string) ([]byte, error) {
	// Stat comes first, since opening a named pipe would block.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: no such file; athena help config shows an example", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: grant the user of this process access to the directory", err)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: grant the user of this process read access", err)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	if err == nil && len(content) > MaxFileBytes {
		err = fmt.Errorf("%s: larger than 1 MiB", path)
	}
	return content, err
}

// parseFile parses the content of a configuration file. The text of each fault starts with its
// place. If the whole file is unreadable, the fault has the flag ConfigFlag.
func parseFile(name string, content []byte) *fileParser {
	p := newFileParser(name, "run", Flags())
	p.keys = append(p.keys, groupsKey)
	if line, column, ok := plainText(content); !ok {
		p.addFault(line, column, ConfigFlag,
			"invalid character: save the file as UTF-8")
		return p
	}
	root, err := p.loadDocument(content)
	switch {
	case err != nil:
		p.faults = append(p.faults, *err)
	case root != nil:
		p.readMapping(root)
	}
	return p
}

func newFileParser(name, verb string, flags *pflag.FlagSet) *fileParser {
	p := &fileParser{name: name, verb: verb, flags: flags, first: map[string]int{}}
	p.keys = slices.DeleteFunc(Settable(flags), func(key string) bool { return key == ConfigFlag })
	return p
}

// loadDocument returns the single document in a file, or nil if the file is empty.
func (p *fileParser) loadDocument(content []byte) (*yaml.Node, *fault) {
	loader, err := yaml.NewLoader(strings.NewReader(string(content)))
	if err != nil {
		panic(err) // impossible: there are no options
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil || len(first.Content) == 0 {
		return nil, p.syntaxFault(err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		p.addFault(second.Line, second.Column, ConfigFlag,
			"a second document begins here: the file must have only one")
		return nil, nil
	case !errors.Is(err, io.EOF):
		return nil, p.syntaxFault(err)
	}
	return first.Content[0], nil
}

// syntaxFault returns the fault for an error of the YAML parser, or nil for nil and io.EOF.
func (p *fileParser) syntaxFault(err error) *fault {
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	text, line, column := err.Error(), 1, 1
	if at, ok := errors.AsType[*yaml.LoadError](err); ok {
		text = at.Message
		line, column = max(at.Mark.Line, 1), max(at.Mark.Column, 1)
		if at.ContextMsg != "" && at.ContextMark.Line > 0 {
			text = fmt.Sprintf("%s, %s from line %d on", text, at.ContextMsg, at.ContextMark.Line)
		}
	}
	return &fault{ConfigFlag, fmt.Errorf("%s:%d:%d: invalid YAML: %.300s", p.name, line, column, text)}
}

// plainText returns the place of the first byte that is not text. The YAML parser also rejects such
// bytes, but does not report their place.
func plainText(content []byte) (line, column int, ok bool) {
	line, column = 1, 1
	for i := 0; i < len(content); {
		r, n := utf8.DecodeRune(content[i:])
		control := r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r < 0xa0 && r != 0x85
		if control || r == utf8.RuneError && n < 2 || r == 0xfffe || r == 0xffff {
			return line, column, false
		}
		i, column = i+n, column+1
		if r == '\n' {
			line, column = line+1, 1
		}
	}
	return line, column, true
}

func (p *fileParser) addFault(line, column int, flag, format string, args ...any) {
	err := fmt.Errorf("%s:%d:%d: %w", p.name, line, column, fmt.Errorf(format, args...))
	p.faults = append(p.faults, fault{flag, err})
}

// readMapping reads all keys of the file.
func (p *fileParser) readMapping(root *yaml.Node) {
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return
	}
	if root.Kind != yaml.MappingNode {
		p.addFault(root.Line, root.Column, ConfigFlag,
			"must consist of lines of the form key: value, such as size: 3")
		return
	}
	names := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		names[root.Content[i].Value] = true
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		p.readEntry(root.Content[i], root.Content[i+1], names)
	}
}

// readEntry reads a key and its value.
func (p *fileParser) readEntry(key, value *yaml.Node, keys map[string]bool) {
	name := key.Value
	switch {
	case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
		p.addFault(key.Line, key.Column, "", "invalid key: must be a flag of athena %s without "+
			"its dashes", p.verb)
	case name == ConfigFlag:
		p.addFault(key.Line, key.Column, "", "config: a file cannot include another: remove the key")
	case !slices.Contains(p.keys, name):
		p.unknownKey(key, keys)
	case p.first[name] > 0:
		p.addFault(key.Line, key.Column, name, "%s: duplicate key, first in line %d: remove one of them",
			name, p.first[name])
	default:
		if p.first[name] = key.Line; name == groupsKey {
			p.readGroups(value)
		} else {
			p.readValue(name, key.Line, value)
		}
	}
}

// unknownKey adds a fault for an unknown key. If the file does not contain the key that was
// probably meant, unknownKey also marks that key as broken.
func (p *fileParser) unknownKey(key *yaml.Node, keys map[string]bool) {
	name := strings.ReplaceAll(strings.ToLower(key.Value[:min(len(key.Value), 100)]), "_", "-")
	meant := meantFlag(strings.TrimPrefix(name, "--"), p.keys)
	advice := "athena help " + p.verb + " lists the flags"
	if meant != "" {
		advice = "did you mean " + meant + "?"
	}
	if keys[meant] {
		meant = ""
	}
	p.addFault(key.Line, key.Column, meant, "unknown key %.100q; %s", key.Value, advice)
}

// readValue reads the value of a key with the syntax of its flag.
func (p *fileParser) readValue(key string, line int, n *yaml.Node) {
	v := fileValue{flag: key}
	nodes := []*yaml.Node{n}
	kind := p.flags.Lookup(key).Value.Type()
	if isList := listElement[kind] != ""; isList && n.Kind == yaml.SequenceNode {
		nodes = n.Content
		v.texts, v.lines = []string{""}, []int{line} // sets the flag even for an empty list
	}
	sound := true
	for _, n := range nodes {
		err := p.checkScalar(key, kind, n)
		if err == nil && len(v.texts) > 0 && (n.Value == "" || strings.Contains(n.Value, ",")) {
			err = fmt.Errorf("must be one %s", listElement[kind])
		}
		if err != nil {
			shown := ""
			if n.Kind == yaml.ScalarNode && n.Value != "" {
				shown = fmt.Sprintf(" %.100q", n.Value)
			}
			p.addFault(n.Line, n.Column, key, "%s%s: %w", key, shown, err)
			sound = false
			continue
		}
		v.texts, v.lines = append(v.texts, n.Value), append(v.lines, n.Line)
	}
	if sound {
		p.values = append(p.values, v)
	}
}

// listElement describes an element of each type of list.
var listElement = map[string]string{
	(seedList{}).Type(): "host:port", (labelList{}).Type(): "KEY=VALUE",
}

// scalarTags maps types of flags to YAML tags. All other types are strings.
var scalarTags = map[string]string{"int": "!!int", "bool": "!!bool"}

// checkScalar returns an error if n is not a valid value for a flag of this kind.
func (p *fileParser) checkScalar(key, kind string, n *yaml.Node) error {
	wants := cmp.Or(scalarTags[kind], "!!str")
	tag := n.ShortTag()
	if kind == (preference{}).Type() && tag == "!!int" {
		wants = tag // never is text
	}
	switch {
	case n.Kind == yaml.AliasNode:
		return errors.New("aliases are not supported: write the value")
	case n.Kind != yaml.ScalarNode:
		return fmt.Errorf("must be %s, not a list or mapping", mustBe(kind))
	case tag == "!!null":
		return fmt.Errorf("no value: must be %s, or remove the key", mustBe(kind))
	case tag == "!!str" && wants != "!!str" && n.Style&^(yaml.TaggedStyle) != 0:
		return fmt.Errorf("must be %s, without quotes", mustBe(kind))
	case tag != wants && wants == "!!str" && kind != "duration":
		return fmt.Errorf("must be %s: put it in quotes", mustBe(kind))
	case tag != wants:
		return fmt.Errorf("must be %s", mustBe(kind))
	}
	err := p.flags.Set(key, n.Value)
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return errors.New(wantedValues(bad))
	}
	return err
}

// mustBe describes the values of a type of flag, for use after "must be".
func mustBe(kind string) string {
	switch kind {
	case "int":
		return "an integer"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration with a unit, such as 500ms, 10s or 1m30s"
	case (seedList{}).Type(), (labelList{}).Type():
		return "a list of " + listElement[kind]
	case (preference{}).Type():
		return "never, or 0 to 100"
	default:
		return "text"
	}
}
