module github.com/athena-go/athena/scripts/sbom

go 1.26.0

toolchain go1.26.6

require github.com/CycloneDX/cyclonedx-go v0.12.0
