#!/bin/sh
# Install what tests in node need: node and npm (Debian's, if there are none), and the packages of each folder's
# package-lock.json into build/NAME-OF-FOLDER. Does nothing if they are there.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

command -v node > /dev/null && command -v npm > /dev/null || "$root/tests/install-packages.sh" nodejs npm
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 18 ] || { echo "node $(node -v) is too old for the tests: 18 or later" >&2; exit 1; }

for folder in "$@"; do
	out=$root/build/$(basename "$folder")
	cd "$root/$folder"
	# The stamp is all that was installed, and by which node.
	stamp=$( { node -v; cat package.json package-lock.json; } | sha256sum)
	[ "$(cat "$out/installed" 2> /dev/null || true)" != "$stamp" ] || continue
	echo "installing: npm packages of $folder"
	mkdir -p "$out"
	cp package.json package-lock.json "$out"
	log=$out/npm.log
	(cd "$out" && npm ci --include=dev --ignore-scripts --no-audit --no-fund) > "$log" 2>&1 || { tail -30 "$log" >&2; exit 1; }
	echo "$stamp" > "$out/installed"
done
