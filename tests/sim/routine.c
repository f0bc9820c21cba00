#include "tests/sim/routine.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#include "base/fault.h"
#include "tests/sim/memory.h"

#define STACK_BYTES ((size_t)256 << 10)

struct routine {
	ucontext_t here, scheduler;
	void (*fn)(void *arg);
	void *arg;
	unsigned fuel;
	bool ended;
	char *stack;
};

static struct routine *running;
static bool held;

bool fault_on[N_FAULTS];
uint64_t fault_hash_mask = UINT64_MAX;

static void enter(void)
{
	struct routine *r = running;

	r->fn(r->arg);
	r->ended = true;
	for (;;)
		routine_yield();
}

struct routine *routine_new(void (*fn)(void *arg), void *arg)
{
	struct routine *r = calloc(1, sizeof(*r));

	assert(r);
	r->fn = fn;
	r->arg = arg;
	r->stack = malloc(STACK_BYTES);
	assert(r->stack);
	getcontext(&r->here);
	r->here.uc_stack.ss_sp = r->stack;
	r->here.uc_stack.ss_size = STACK_BYTES;
	makecontext(&r->here, enter, 0);
	return r;
}

void routine_resume(struct routine *r, unsigned fuel)
{
	assert(!running);
	r->fuel = fuel;
	running = r;
	bool was = memory_of_process(true);
	swapcontext(&r->scheduler, &r->here);
	memory_of_process(was);
	running = NULL;
}

bool routine_ended(const struct routine *r)
{
	return r->ended;
}

void routine_free(struct routine *r)
{
	if (!r)
		return;
	assert(r != running);
	free(r->stack);
	free(r);
}

void routine_yield(void)
{
	struct routine *r = running;

	assert(r);
	swapcontext(&r->here, &r->scheduler);
}

void routine_hold(bool yes)
{
	held = yes;
}

void fault_point(void)
{
	if (running && !held && running->fuel-- == 0)
		routine_yield();
}

void fault_wait(void)
{
	routine_yield();
}
