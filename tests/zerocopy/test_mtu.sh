#!/bin/bash
# Jumbo frames of more than one buffer: virtio-net has none in zero-copy mode, so auto takes copy mode and
# says why.
. /common.sh
kind="virtio-net, MTU 9000"

says_why() { is_copy && grep -q 'needs multi-buffer XDP' $LOG; }
is_nothing_dropped() { api GET counters | jq -e '([.drops[]] | add) == 0' > /dev/null; }
show_drops() { api GET counters | jq -c .drops; }

take_nics 02:00:00:09:00:02 02:00:00:09:01:02
set_mtus 9000
start_daemon --interface lb0 --interface lb1
expect "auto takes copy mode, in several buffers, and says why" says_why status
make_vips > /run/made 2>&1
wait_for 60 are_resolved
expect_full_frames 9000
expect "nothing dropped" is_nothing_dropped show_drops
stop_daemon TERM
concuryd --detach --interface lb0 --interface lb1 > /dev/null 2>&1
set_mtus 1500
