// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"os/exec"
	"testing"
)

// disk lists bugs of package store. The drawn runs of package crashdisk catch them.
var disk = []Mutant{
	{
		Name: "file-not-synced",
		Rule: "a new file is synced before it replaces the old one",
		Edits: []Edit{{
			File: "internal/store/directory.go",
			Old:  "err == nil {\n\t\terr = f.Sync()\n\t}\n",
			New:  "err == nil {\n\t\terr = nil\n\t}\n",
		}},
	},
	{
		Name: "directory-not-synced",
		Rule: "the directory is synced after a rename",
		Edits: []Edit{{
			File: "internal/store/directory.go",
			Old:  "if err := d.folder.Sync(); err != nil {",
			New:  "if err := error(nil); err != nil {",
		}},
	},
	{
		Name: "renamed-before-synced",
		Rule: "a new file is synced before it replaces the old one, not after",
		Edits: []Edit{{
			File: "internal/store/directory.go",
			Old: "err == nil {\n\t\terr = f.Sync()\n\t}\n\tif err == nil {\n" +
				"\t\terr = d.folder.Rename(temporary, name)\n\t}\n",
			New: "err == nil {\n\t\terr = d.folder.Rename(temporary, name)\n\t}\n\tif err == nil {\n" +
				"\t\terr = f.Sync()\n\t}\n",
		}},
	},
	{
		Name: "entry-not-synced",
		Rule: "an entry is synced",
		Edits: []Edit{{
			File: "internal/store/file.go",
			Old:  "\t\terr = s.state.Sync()\n",
			New:  "\t\terr = nil\n",
		}},
	},
	{
		Name: "failed-sync-ignored",
		Rule: "Save returns the error of a sync",
		Edits: []Edit{{
			File: "internal/store/file.go",
			Old:  "\t\terr = s.state.Sync()\n",
			New:  "\t\t_ = s.state.Sync()\n",
		}},
	},
	{
		Name: "failed-sync-repeated",
		Rule: "nothing is appended to a file after a failed sync",
		Edits: []Edit{{
			File: "internal/store/file.go",
			Old:  "\t\terr = s.state.Sync()\n",
			New:  "\t\tif err = s.state.Sync(); err != nil {\n\t\t\terr = s.state.Sync()\n\t\t}\n",
		}},
	},
	{
		Name: "appended-after-a-failure",
		Rule: "after a failed write the next Save makes a new file",
		Edits: []Edit{{
			File: "internal/store/file.go",
			Old:  "\ts.wrote = image{} // nothing is appended after a failed write\n",
			New:  "",
		}},
	},
	{
		Name: "checksum-ignored",
		Rule: "an entry counts only if its checksum is right",
		Edits: []Edit{{
			File: "internal/store/format.go",
			Old:  "\tif string(sum) != digestEntry(root, at, body) {\n",
			New:  "\tif len(sum) == 0 {\n",
		}},
	},
	{
		Name: "damage-is-no-store",
		Rule: "a file that cannot be read is an error, not a new store",
		Edits: []Edit{{
			File: "internal/store/file.go",
			Old:  "\tcase errors.Is(err, ErrCorrupt):\n\t\terr = fmt.Errorf(\"%s: %w; start the other",
			New: "\tcase errors.Is(err, ErrCorrupt):\n\t\treturn Content{}, false, nil\n" +
				"\tcase path == \"\":\n\t\terr = fmt.Errorf(\"%s: %w; start the other",
		}},
	},
	{
		Name: "failed-read-is-no-store",
		Rule: "an error of the disk is an error of Load",
		Edits: []Edit{{
			File: "internal/store/file.go",
			Old: "\tcontent, err := d.readFile(stateName, maxStateBytes, othersAll)\n" +
				"\tif errors.Is(err, fs.ErrNotExist) {\n",
			New: "\tcontent, err := d.readFile(stateName, maxStateBytes, othersAll)\n" +
				"\tif err != nil && !errors.Is(err, ErrCorrupt) {\n",
		}},
	},
}

// TestDiskMutantsAreCaught runs the drawn tests of package crashdisk on each bug.
func TestDiskMutantsAreCaught(t *testing.T) {
	if !*all && *one == "" {
		t.Skip("run with -mutants: it takes a minute")
	}
	for _, m := range disk {
		if *one != "" && m.Name != *one {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			run := exec.Command("go", "test", "-overlay", overlay(t, m), "-count=1",
				"-run", "^TestDrawn$", "./test/crashdisk")
			run.Dir = root
			out, caught := runs(t, m, run)
			if !caught {
				t.Errorf("%s survives: %s", m.Name, m.Rule)
			}
			t.Log(out)
		})
	}
}

func TestDiskMutantsApply(t *testing.T) {
	for _, m := range disk {
		applyPatch(t, m)
	}
}
