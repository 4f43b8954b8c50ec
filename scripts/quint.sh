#!/bin/sh
# Installs Quint, with which make spec runs the specification, into bin/quint. It needs node, npm
# and a registry. The override is needed because antlr4ts 0.5.0-dev, which npm prefers, is broken.
set -eu
cd "$(dirname "$0")/.."
mkdir -p bin/quint
cat >bin/quint/package.json <<'JSON'
{
  "private": true,
  "dependencies": { "@informalsystems/quint": "0.33.1" },
  "overrides": { "antlr4ts": "0.5.0-alpha.4" }
}
JSON
npm install --prefix bin/quint --no-audit --no-fund
