#!/bin/bash
# In the guest: the network, then each test_*.sh with it, a process for each. They print "ok - name" or
# "not ok - name (why)", and figures.
. /common.sh
make_network
for test in /test_*.sh; do
	bash "$test" || echo "not ok - $test ended with $?"
done
