#!/bin/sh
# Renders docs/plantuml/*.puml to SVG files beside them. Each SVG ends with a comment that
# holds the SHA-256 of its source; TestDiagramsRendered compares the two.
set -eu
cd "$(dirname "$0")/../docs/plantuml"

missing=
for tool in plantuml dot; do
  command -v "$tool" >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
  echo "diagrams: not installed:$missing (make tools)" >&2
  exit 1
fi

for source in *.puml; do
  svg="${source%.puml}.svg"
  plantuml -tsvg -nometadata -failfast2 -SbackgroundColor=white -Sshadowing=false "$source"
  printf '<!-- sha256 of %s: %s -->\n' "$source" "$(sha256sum <"$source" | cut -d' ' -f1)" >>"$svg"
  echo "diagrams: $svg"
done
