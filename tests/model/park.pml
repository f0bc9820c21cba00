/* The park handshake of forwarder/worker/worker.c, for spin: two workers, control that publishes, main
 * that may stop one of them at any moment, and packets that come when they like. Step names (W1.., C1..,
 * S1..) are those of the comments in worker.c.
 *
 * The state word is one byte, state | flags, and each atomic operation of the C code one atomic step
 * here: they are sequentially consistent there. A futex wait is the kernel's: compare and sleep in one
 * step, woken by a wake alone. poll() has no time-out here, though it has one in the C code: nothing
 * may depend on it. A weak compare-and-swap that fails for no reason repeats its step and is left out.
 *
 * Checked as assertions: no worker touches a packet, or has one looked up but not recorded, or uses a
 * snapshot that was freed, between control's drain and its release; at the swap all rings are empty.
 * Checked as invalid end states (a process blocked for ever where it may not be) and by the formulas
 * below: control's wait ends; a packet that came is taken; no worker stays parked.
 *
 * FAULT_*: what must be found. */

#define WORKERS 2
#ifndef PUBLISHES
#define PUBLISHES 2
#endif
#ifndef PACKETS
#define PACKETS 1
#endif

#define RUNNING 0
#define ASLEEP 1
#define PARKED 2
#define STOPPED 3
#define STATE 3
#define HOLD 4
#define QUIT 8

byte word[WORKERS];	  /* state | flags */
bool queued_w[WORKERS];	  /* the worker waits on its word's futex */
bool queued_c[WORKERS];	  /* control does */
byte packets[WORKERS];	  /* in the RX ring */
bool port_waked[WORKERS]; /* the eventfd beside it in poll() */
bit ring[WORKERS];	  /* it holds records that control has not applied */

bit snapshot;	 /* the pointer: which of two */
bool freed[2];
bool drained;	 /* control is between drain and release */
bool holding;	 /* control is between hold and release */
byte touching;	 /* workers inside worker_round */
byte unrecorded; /* packets looked up, but not yet in a ring */

/* The futex: compare and sleep is one step of the kernel. */
inline worker_wait(i, expected)
{
	atomic {
		if
		:: word[i] == expected -> queued_w[i] = true
		:: else -> skip
		fi
	}
	!queued_w[i]
}

inline control_wait(i, expected)
{
	atomic {
		if
		:: word[i] == expected -> queued_c[i] = true
		:: else -> skip
		fi
	}
	!queued_c[i]
}

inline word_wake(i)
{
	atomic {
		queued_w[i] = false;
		queued_c[i] = false
	}
}

/* --- the worker ------------------------------------------------------------------------------- */

/* W1-W4 enter_running: ok says whether it shall go on. */
inline enter_running(i)
{
	seen = word[i];					/* W1 load */
	do
	:: atomic { seen & QUIT -> ok = false; break }	/* W2 */
	:: !(seen & QUIT) && (seen & HOLD) && (seen & STATE) == ASLEEP ->
		atomic {				/* W3a out of the driver: still */
			word[i] = (word[i] & ~STATE) | PARKED;
			seen = word[i]
		};
		word_wake(i)
	:: !(seen & QUIT) && (seen & HOLD) && (seen & STATE) != ASLEEP ->
		worker_wait(i, seen);			/* W3 wait for the release */
		seen = word[i]
	:: atomic {					/* W4 compare-and-swap to RUNNING */
			!(seen & (QUIT | HOLD)) ->
			if
			:: word[i] == seen -> word[i] = RUNNING; ok = true; break
			:: else -> seen = word[i]
			fi
		}
	od;
	seen = 0
}

/* W9, W10: change the state, keep the flags; wake control if it holds. */
inline park(i)
{
	atomic { word[i] = (word[i] & ~STATE) | PARKED; seen = word[i] }
#ifndef FAULT_PARKS_SILENTLY
	if
	:: seen & HOLD -> word_wake(i)
	:: else -> skip
	fi;
#endif
	enter_running(i)
}

proctype worker(byte i)
{
	byte seen;
	bit s;
	bool ok;

	enter_running(i);
	do
	:: !ok -> break
	:: atomic { ok && word[i] != RUNNING -> skip };		/* W5 look between two rounds */
		park(i)
	:: atomic { ok && word[i] == RUNNING -> skip };		/* W5 */
round:		/* W6 one round */
		atomic { touching++; s = snapshot; assert(!drained && !freed[s]) }
		if
		:: atomic { packets[i] > 0 -> packets[i]--; unrecorded++ };
			/* looked up, not yet told */
			atomic { assert(!drained && !freed[s]); ring[i] = 1; unrecorded-- };
			/* recorded, not yet sent */
			atomic { assert(!drained && !freed[s]); touching--; s = 0 }
		:: atomic { packets[i] == 0 -> touching--; s = 0 };
			if
			:: skip			/* not idle for long enough */
			:: true ->
#ifdef FAULT_SLEEPS_BLINDLY
				atomic { word[i] = (word[i] & ~STATE) | ASLEEP }
#else
				atomic {	/* W7 compare-and-swap from RUNNING to ASLEEP */
					if
					:: word[i] == RUNNING -> word[i] = ASLEEP
					:: else -> seen = 1
					fi
				}
#endif
				if
				:: seen == 1 ->
					park(i)
				:: seen == 0 ->
end_asleep:				atomic {	/* W8 poll() */
						packets[i] > 0 || port_waked[i] ->
						port_waked[i] = false
					}
#ifdef FAULT_NO_RECHECK
					atomic { word[i] = (word[i] & ~STATE) | RUNNING };
					goto round
#else
					enter_running(i)
#endif
				fi
			fi
		fi
	od;
	atomic { word[i] = (word[i] & ~STATE) | STOPPED };	/* W11 */
	word_wake(i)
}

/* --- control ---------------------------------------------------------------------------------- */

proctype control()
{
	byte n, i, seen;

	do
	:: n == PUBLISHES -> break
	:: n < PUBLISHES ->
		atomic { n++; holding = true }
		for (i : 0 .. WORKERS - 1) {
			word[i] = word[i] | HOLD	/* C1 hold */
		}
		for (i : 0 .. WORKERS - 1) {
			do				/* C2 wait until it is not RUNNING */
			:: atomic { seen = word[i] };
				if
				:: (seen & STATE) != RUNNING -> break
				:: else -> control_wait(i, seen)
				fi
			od
		}
		atomic { drained = true; i = 0; seen = 0; assert(touching == 0 && unrecorded == 0) }
#ifndef FAULT_NO_DRAIN
		d_step { ring[0] = 0; ring[1] = 0 }	/* C3 drain */
#endif
		atomic {
			assert(touching == 0 && unrecorded == 0 && ring[0] == 0 && ring[1] == 0);
			freed[snapshot] = true;
			snapshot = 1 - snapshot;	/* C4 swap, free */
			freed[snapshot] = false
		}
		atomic { assert(touching == 0 && unrecorded == 0); drained = false }
		for (i : 0 .. WORKERS - 1) {
			word[i] = word[i] & ~HOLD;	/* C5 release */
#ifndef FAULT_RELEASES_SILENTLY
			word_wake(i)			/* C6 */
#endif
		}
		atomic { holding = false; i = 0 }
	od
}

/* --- main and the network --------------------------------------------------------------------- */

/* Stops a worker at any moment, or never. */
proctype stopper(byte i)
{
	if
	:: true
	:: true ->
		word[i] = word[i] | QUIT;		/* S1 */
		word_wake(i);				/* S2 */
#ifndef FAULT_STOPS_SILENTLY
		port_waked[i] = true;			/* S3 */
#endif
		(word[i] & STATE) == STOPPED		/* S4 join */
	fi
}

proctype network(byte i)
{
	byte n;

	do
	:: n < PACKETS -> atomic { packets[i]++; n++ }
	:: n == PACKETS -> break
	od
}

init {
	byte i;

	atomic {
		freed[1] = true;
		for (i : 0 .. WORKERS - 1) {
			word[i] = STOPPED;
			run worker(i);
			run network(i)
		}
		run control();
#ifdef STOPS
		run stopper(1)
#endif
	}
}

#define left_parked(i) ((word[i] & STATE) == PARKED)
#define left_waiting(i) (packets[i] > 0 && (word[i] & STATE) != STOPPED)

ltl publish_ends { [] (holding -> <> !holding) }
ltl packet_taken { [] (left_waiting(0) -> <> !left_waiting(0)) }
ltl none_parked { [] (left_parked(0) -> <> !left_parked(0)) }
