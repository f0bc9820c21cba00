#!/bin/bash
# tests/threaded.sh PROGRAM...: those that can start a thread, by what they are linked against. In the
# others ThreadSanitizer would have nothing to look at. Exit 1 if there is none, or one cannot be read.
set -u
n=0
for prog in "$@"; do
	wants=$(nm -u "$prog") || exit 1
	grep -qE ' (pthread_create|thrd_create|MHD_start_daemon)(@|$)' <<< "$wants" || continue
	echo "$prog"
	n=$((n + 1))
done
[ $n -gt 0 ] || { echo "none of $# programs can start a thread" >&2; exit 1; }
