#!/bin/bash
# VLANs and bonds, in a guest of their own: see run.sh.
cd "$(dirname "$0")/../.." || exit 1
TESTS=links exec tests/zerocopy/run.sh "$@"
