#!/bin/sh
# Install what the test of the generated client needs: node and npm (Debian's, if there are none), and the
# packages of package-lock.json into build/client. Does nothing if they are there.
set -eu
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)
out=$root/build/client
files="package.json package-lock.json"

command -v node > /dev/null && command -v npm > /dev/null || "$root/tests/install-packages.sh" nodejs npm
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 18 ] || { echo "node $(node -v) is too old for the generated client: 18 or later" >&2; exit 1; }

# The stamp is all that was installed, and by which node.
stamp=$( { node -v; cat $files; } | sha256sum)
[ "$(cat "$out/installed" 2> /dev/null || true)" != "$stamp" ] || exit 0
echo "installing: npm packages of tests/e2e/client"
mkdir -p "$out"
cp $files "$out"
log=$out/npm.log
(cd "$out" && npm ci --include=dev --ignore-scripts --no-audit --no-fund) > "$log" 2>&1 || { tail -30 "$log" >&2; exit 1; }
echo "$stamp" > "$out/installed"
