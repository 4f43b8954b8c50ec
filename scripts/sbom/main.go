// SPDX-License-Identifier: Apache-2.0

// Command sbom writes the modules of a Go program as a CycloneDX SBOM. The output contains the data
// of `go version -m`. The output is reproducible, because it contains no time and no random id.
package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION > bom.cdx.json")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

// write writes the SBOM of the program at path.
func write(w io.Writer, path, version string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	program := module(cdx.ComponentTypeApplication, info.Main.Path, version, "")
	compiler := module(cdx.ComponentTypeLibrary, "std", info.GoVersion, "")
	parts, refs := []cdx.Component{compiler}, []string{compiler.BOMRef}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		part := module(cdx.ComponentTypeLibrary, d.Path, d.Version, d.Sum)
		parts, refs = append(parts, part), append(refs, part.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &program, Properties: settings(info.Settings)}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// module returns a component. sum is its checksum in go.sum.
func module(kind cdx.ComponentType, path, version, sum string) cdx.Component {
	purl := fmt.Sprintf("pkg:golang/%s@%s", path, version)
	c := cdx.Component{
		Type: kind, BOMRef: purl, Name: path, Version: version, PackageURL: purl,
	}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}

// settings returns the build flags and variables of the program.
func settings(list []debug.BuildSetting) *[]cdx.Property {
	var properties []cdx.Property
	for _, s := range list {
		properties = append(properties, cdx.Property{Name: "go:" + s.Key, Value: s.Value})
	}
	return &properties
}
