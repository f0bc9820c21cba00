# An apt of its own, below a folder: the system's sources, lists and packages stay as they are. Sourced, by
# bash with errexit. It takes the mirror that this machine uses anyway.
#
#	apt_open DIR SUITE...   its lists, anew; false: they cannot be had, and $apt_error says why
#	private_apt COMMAND...  apt-get or apt-cache with them, for PRIVATE_APT_LIMIT_S seconds at the most
#	apt_get_debs PACKAGE... downloaded, as DIR/*.deb; false as above
#	apt_unpack TREE         those, and away with them
apt_limit_s=${PRIVATE_APT_LIMIT_S:-120}
apt_keyring=/usr/share/keyrings/debian-archive-keyring.gpg
apt_error=

# The mirror of the system's own Debian sources; without its lists apt does not tell.
apt_mirror() {
	apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
		awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }'
}

private_apt() {
	timeout -k 5 "$apt_limit_s" "$@" -q -o Dir::State="$apt/state" -o Dir::State::status="$apt/state/status" \
		-o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/sources.list" \
		-o Dir::Etc::sourceparts="$apt/empty" -o APT::Sandbox::User=root \
		-o APT::Architecture=amd64 -o Acquire::Retries=2
}

# What the last command said, if anything, of what it was about.
apt_fault() { # SUBJECT
	local why
	why=$(tail -n 1 "$apt/log")
	apt_error="$1: ${why:-no answer within $apt_limit_s s}"
	return 1
}

apt_open() { # DIR SUITE...
	local uri suite
	apt=$1
	shift
	uri=$(apt_mirror)
	if [ -z "$uri" ] && [ "$(id -u)" = 0 ]; then
		timeout -k 5 "$apt_limit_s" apt-get update -q > /dev/null 2>&1 || true
		uri=$(apt_mirror)
	fi
	[ -n "$uri" ] || { apt_error="this machine's apt knows no mirror of Debian"; return 1; }
	[ -e $apt_keyring ] || { apt_error="$apt_keyring is missing (debian-archive-keyring)"; return 1; }
	mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/empty"
	touch "$apt/state/status"
	for suite; do
		echo "deb [arch=amd64 signed-by=$apt_keyring] $uri $suite main"
	done > "$apt/sources.list"
	# Without "any" a list that cannot be had is no error.
	private_apt apt-get update --error-on=any > "$apt/log" 2>&1 || apt_fault "$*"
}

apt_get_debs() { # PACKAGE...
	rm -f "$apt"/*.deb
	(cd "$apt" && private_apt apt-get download "$@") > "$apt/log" 2>&1 || apt_fault "$1"
}

apt_unpack() { # TREE
	local deb
	mkdir -p "$1"
	for deb in "$apt"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$1"
		rm "$deb"
	done
}
