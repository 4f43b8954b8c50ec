// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// TestModulesOfAProgram checks that the SBOM of this test lists cyclonedx-go.
func TestModulesOfAProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := write(out, self, "v1.2.3"); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Errorf("two runs differ:\n%s\n%s", &first, &second)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(&first, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	const name = "github.com/athena-go/athena/scripts/sbom"
	if c := bom.Metadata.Component; c.Version != "v1.2.3" || c.Name != name {
		t.Errorf("got program %s %s, want this one as v1.2.3", c.Name, c.Version)
	}
	found := false
	for _, c := range *bom.Components {
		found = found || c.Name == "github.com/CycloneDX/cyclonedx-go" &&
			strings.HasPrefix(c.PackageURL, "pkg:golang/github.com/CycloneDX/cyclonedx-go@v")
	}
	if refs := *(*bom.Dependencies)[0].Dependencies; !found || len(refs) != len(*bom.Components) {
		t.Errorf("got %v, with %d references; want cyclonedx-go, and a reference to each",
			*bom.Components, len(refs))
	}
	if write(&second, filepath.Join(t.TempDir(), "none"), "") == nil {
		t.Error("no error for a missing program")
	}
}
