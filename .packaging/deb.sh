#!/bin/bash
# deb.sh BUILD: make the Debian packages concury and concury-agent of what was built, in BUILD/deb/. VERSION is the
# program's; a build that is no release (a tag vVERSION) says of which commit it is, in the order of time.
#
# By dpkg's own tools: the packages have two services and no build of their own, so what a debhelper would
# generate is a page of shell, and stands beside this file (prerm.in, postrm.in, ...).
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
out=$build/deb
arch=$(dpkg --print-architecture)
# Who builds it, as with Debian's own tools.
maintainer="${DEBFULLNAME:-The Concury authors} <${DEBEMAIL:-$(git log -1 --format=%ce 2> /dev/null || echo "root@$(hostname -f)")}>"

version=$VERSION
epoch=$(date +%s)
if git -c safe.directory="$PWD" rev-parse HEAD > /dev/null 2>&1; then
	git() { command git -c safe.directory="$PWD" "$@"; }
	epoch=$(git log -1 --format=%ct)
	if [ -z "$(git tag --points-at HEAD "v$VERSION")" ]; then
		# After a release of that number, or on the way to it.
		version+=$([ -n "$(git tag --list "v$VERSION")" ] && echo + || echo '~')
		version+=git$(date -u -d "@$epoch" +%Y%m%d.%H%M%S).$(git rev-parse --short=12 HEAD)
	fi
fi
export SOURCE_DATE_EPOCH=$epoch

rm -rf "$out"
mkdir -p "$out/debian"
log=$out/log
make --no-print-directory BUILD="$build" DESTDIR="$PWD/$out/concury" PREFIX=/usr install > "$log" 2>&1 ||
	{ tail -20 "$log"; exit 1; }

# --- which files are whose ----------------------------------------------------------------------------

# give_agent PATH...: from one package to the other.
give_agent() {
	local p
	for p; do
		mkdir -p "$out/concury-agent/$(dirname "$p")"
		mv "$out/concury/$p" "$out/concury-agent/$p"
	done
}
give_agent usr/sbin/concury-agent usr/lib/systemd/system/concury-agent.service etc/default/concury-agent \
	usr/share/man/man8/concury-agent.8

documents() { # PACKAGE
	local doc=$out/$1/usr/share/doc/$1
	mkdir -p "$doc"
	{
		echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
		echo 'Upstream-Name: Concury'
		echo
		echo 'Files: *'
		sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
		echo 'License: Expat'
		sed -e '1,/^Copyright/d' -e '/./!s/^/./' -e 's/^/ /' LICENSE | sed 1d
		if [ "$1" = concury ]; then
			printf '\nFiles: usr/lib/concury/steer.bpf.o\n'
			sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
			printf 'License: Expat or GPL-2\n Either; the text of the latter is in /usr/share/common-licenses/GPL-2.\n'
			printf '\nFiles: usr/share/concury/web/chart.min.js\n'
			printf 'Copyright: Chart.js Contributors\nLicense: Expat\n'
		fi
	} > "$doc/copyright"
	rm -f "$doc/LICENSE"
	printf '%s (%s) unstable; urgency=medium\n\n  * As of the commit that the version names.\n\n -- %s  %s\n' \
		"$1" "$version" "$maintainer" "$(date -u -R -d "@$epoch")" | gzip -9n > "$doc/changelog.gz"
	find "$out/$1/usr/share/man" -type f -exec gzip -9n {} +
}

# A script of dpkg: NAME.in with the package's, its service's and its configuration's names.
script() { # PACKAGE NAME
	sed -e "s,@package@,$1,g" -e "/^@$1@/,/^@end@/{/^@/d}" -e '/^@concury.*@/,/^@end@/d' ".packaging/$2.in" \
		> "$out/$1/DEBIAN/$2"
	chmod 755 "$out/$1/DEBIAN/$2"
}

# shlibs PACKAGE: what its programs are linked with.
shlibs() {
	(cd "$out" && dpkg-shlibdeps -O --ignore-missing-info "$1"/usr/*bin/* 2>> log) | sed -n 's/^shlibs:Depends=//p'
}

control() { # PACKAGE "MORE DEPENDS" "OTHER FIELDS" < description
	cat <<-END
		Package: $1
		Version: $version
		Architecture: $arch
		Maintainer: $maintainer
		Installed-Size: $(du -k -s --apparent-size "$out/$1" | cut -f1)
		Depends: $(shlibs "$1")${2:+, $2}
		${3:+$3
		}Section: net
		Priority: optional
		Description: $(cat)
	END
}

package() { # PACKAGE "MORE DEPENDS" "OTHER FIELDS" < description
	local root=$out/$1
	documents "$1"
	strip --strip-unneeded "$root"/usr/*bin/*
	mkdir "$root/DEBIAN"
	printf 'Source: %s\n\nPackage: %s\nArchitecture: any\n' "$1" "$1" > "$out/debian/control"
	control "$@" | sed '/^$/d' > "$root/DEBIAN/control"
	(cd "$root" && find etc -type f -printf '/%p\n' | sort > DEBIAN/conffiles)
	script "$1" postinst
	script "$1" prerm
	script "$1" postrm
	(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
	chmod 644 "$root"/DEBIAN/{control,conffiles,md5sums}
	find "$root" -type d -exec chmod 755 {} +
	dpkg-deb --root-owner-group --build "$root" "$out" >> "$log"
}

mkdir -p "$out/concury/usr/share/lintian/overrides"
cat > "$out/concury/usr/share/lintian/overrides/concury" <<'END'
# A program for the kernel's BPF machine, whatever the host's is; it has no libraries and no symbols to strip.
concury: binary-from-other-architecture [usr/lib/concury/steer.bpf.o]
concury: unstripped-binary-or-object [usr/lib/concury/steer.bpf.o]
END

package concury '' 'Recommends: ethtool, iproute2
Suggests: concury-agent' <<'END'
stateful layer-4 load balancer
 Keeps every connection on its backend while backends come, go, fail and change
 weight, without a connection table in the packet path: AF_XDP and Othello
 hashing. Managed over HTTP with JSON; a restart loses no connection.
 .
 This package has concuryd, the command line concuryctl, and the dashboard. The
 service is not started before /etc/default/concury names interfaces.
END
package concury-agent <<'END'
agent of the Concury load balancer for backends
 Tells a Concury forwarder of connections that it never saw, and of ends that
 only the backend saw. Optional: no connection rests on it.
END
rm -rf "$out/debian"
ls "$out"/*.deb
