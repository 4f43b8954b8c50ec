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

// MaxFileBytes bounds a configuration file; more is taken for a mistake.
const MaxFileBytes = 1 << 20

// fileValue is what a configuration file says of one flag.
type fileValue struct {
	flag  string
	texts []string // what the flag would be given, one after the other
	// lines are where it is written: the key, or of a list each element.
	lines []int
}

// fileParser reads a configuration file: one mapping of flags, without their dashes,
// to values.
type fileParser struct {
	name   string         // as faults call the file
	flags  *pflag.FlagSet // tells what is a key, and takes each value once to try it
	keys   []string
	values []fileValue
	first  map[string]int // line on which a key was given first
	faults []fault
}

// fileContent reads the whole of a regular file.
func fileContent(path string) ([]byte, error) {
	// Before it is opened: opening a pipe waits for somebody who writes to it.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: is not there; name a file of keys and values, of which "+
			"athena help config shows one", path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: let the user that runs this process read it, and pass through its "+
			"folders", err)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is not a regular file", path)
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: let the user that runs this process read it", err)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, MaxFileBytes+1))
	if err == nil && len(content) > MaxFileBytes {
		err = fmt.Errorf("%s: is longer than 1 MiB, and no configuration is", path)
	}
	return content, err
}

// parseFile reads the content of a configuration file. Each fault has its place in
// it. One after which nothing is known of the file is of configFlag.
func parseFile(name string, content []byte) ([]fileValue, []fault) {
	p := &fileParser{
		name:  name,
		flags: Flags(),
		first: map[string]int{},
	}
	p.keys = slices.DeleteFunc(Settable(p.flags), func(key string) bool { return key == ConfigFlag })
	if line, column, ok := plainText(content); !ok {
		p.addFault(line, column, ConfigFlag,
			"there is a character that is no text: save the file as UTF-8")
		return nil, p.faults
	}
	root, err := p.loadDocument(content)
	if err != nil {
		return nil, append(p.faults, *err)
	}
	if root != nil {
		p.readMapping(root)
	}
	return p.values, p.faults
}

// loadDocument reads the one document of a file; nil where there is none.
func (p *fileParser) loadDocument(content []byte) (*yaml.Node, *fault) {
	loader, err := yaml.NewLoader(strings.NewReader(string(content)))
	if err != nil {
		panic(err) // it has no options that could be wrong
	}
	var first, second yaml.Node
	if err := loader.Load(&first); err != nil || len(first.Content) == 0 {
		return nil, p.syntaxFault(err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		p.addFault(second.Line, second.Column, ConfigFlag,
			"a second document begins here: keep one, without --- and ...")
		return nil, nil
	case !errors.Is(err, io.EOF):
		return nil, p.syntaxFault(err)
	}
	return first.Content[0], nil
}

// syntaxFault is a fault that the parser of YAML has found.
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
	return &fault{ConfigFlag, fmt.Errorf("%s:%d:%d: no YAML: %.300s", p.name, line, column, text)}
}

// plainText finds the first byte that is no text. The parser refuses it too, and does
// not say where.
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

// readMapping reads the keys of the file.
func (p *fileParser) readMapping(root *yaml.Node) {
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return
	}
	if root.Kind != yaml.MappingNode {
		p.addFault(root.Line, root.Column, ConfigFlag,
			"must be lines of the form key: value, such as size: 3")
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

// readEntry reads one key of these with its value.
func (p *fileParser) readEntry(key, value *yaml.Node, keys map[string]bool) {
	name := key.Value
	switch {
	case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
		p.addFault(key.Line, key.Column, "", "must be a key: the name of a flag of athena run, "+
			"without its dashes")
	case name == ConfigFlag:
		p.addFault(key.Line, key.Column, "", "config: a file cannot name another one: leave it out")
	case !slices.Contains(p.keys, name):
		p.unknownKey(key, keys)
	case p.first[name] > 0:
		p.addFault(key.Line, key.Column, name, "%s: is there already, in line %d: leave one of them out",
			name, p.first[name])
	default:
		p.first[name] = key.Line
		p.readValue(name, key.Line, value)
	}
}

// unknownKey tells of a name that is no key. The value of the one that was meant is not
// known then, unless that is among the keys too.
func (p *fileParser) unknownKey(key *yaml.Node, keys map[string]bool) {
	name := strings.ReplaceAll(strings.ToLower(key.Value[:min(len(key.Value), 100)]), "_", "-")
	meant := meantFlag(strings.TrimPrefix(name, "--"), p.keys)
	advice := "athena help environment lists them"
	if meant != "" {
		advice = "did you mean " + meant + "?"
	}
	if keys[meant] {
		meant = ""
	}
	p.addFault(key.Line, key.Column, meant, "%.100q is no key; %s", key.Value, advice)
}

// readValue reads the value of a key, as the flag of this name would take it.
func (p *fileParser) readValue(key string, line int, n *yaml.Node) {
	v := fileValue{flag: key}
	nodes := []*yaml.Node{n}
	kind := p.flags.Lookup(key).Value.Type()
	if isList := kind == (seedList{}).Type(); isList && n.Kind == yaml.SequenceNode {
		nodes = n.Content
		v.texts, v.lines = []string{""}, []int{line} // also where the list is empty
	}
	sound := true
	for _, n := range nodes {
		err := p.checkScalar(key, kind, n)
		if err == nil && len(v.texts) > 0 && (n.Value == "" || strings.Contains(n.Value, ",")) {
			err = errors.New("must be one host:port")
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

// scalarTags are the tags of YAML for the types of flags: text in all but these.
var scalarTags = map[string]string{"int": "!!int", "bool": "!!bool"}

// checkScalar says what is wrong with a value for a flag of this type.
func (p *fileParser) checkScalar(key, kind string, n *yaml.Node) error {
	wants := cmp.Or(scalarTags[kind], "!!str")
	tag := n.ShortTag()
	switch {
	case n.Kind == yaml.AliasNode:
		return errors.New("is an alias: write the value itself")
	case n.Kind != yaml.ScalarNode:
		return fmt.Errorf("must be %s, and nothing within it", mustBe(kind))
	case tag == "!!null":
		return fmt.Errorf("has no value: give it one, or leave the line out; it must be %s", mustBe(kind))
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

// mustBe says what a flag of this type takes, after "must be".
func mustBe(kind string) string {
	switch kind {
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	case "duration":
		return "a time with its unit, such as 500ms, 10s or 1m30s"
	case (seedList{}).Type():
		return "a list of host:port"
	default:
		return "text"
	}
}
