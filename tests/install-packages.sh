#!/bin/sh
# Install the Debian packages that are named and missing. Root only if something is missing.
# Freshly installed daemons (nginx) are not started: a policy-rc.d stands in the way meanwhile.
set -eu

missing=
for p in "$@"; do
	[ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | cut -c1-2)" = ii ] ||
		missing="$missing $p"
done
[ -n "$missing" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "these packages are missing, run as root to install them:$missing" >&2; exit 1; }

echo "installing:$missing"
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	printf '#!/bin/sh\nexit 101\n' > $policy
	chmod +x $policy
	trap 'rm -f $policy' EXIT INT TERM
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086
if ! { apt-get update -q && apt-get install -q -y --no-install-recommends $missing; } > "$log" 2>&1; then
	tail -30 "$log" >&2
	exit 1
fi
rm -f "$log"
