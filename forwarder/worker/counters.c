#include "worker/counters.h"

#include "base/hugemem.h"

#define DIPS_BYTES (DIP_COUNTERS_MAX * sizeof(struct traffic_counter))

const char *const drop_reason_name[N_DROP_REASONS] = {
#define DROP_NAME(name, text) #name,
	DROP_REASONS(DROP_NAME)
#undef DROP_NAME
};

const char *const drop_reason_text[N_DROP_REASONS] = {
#define DROP_TEXT(name, text) text,
	DROP_REASONS(DROP_TEXT)
#undef DROP_TEXT
};

struct worker_counters *worker_counters_new(void)
{
	struct worker_counters *c = hugemem_alloc(sizeof(*c), NULL);

	if (!c)
		return NULL;
	c->dips = hugemem_alloc(DIPS_BYTES, NULL);
	c->back = hugemem_alloc(DIPS_BYTES, NULL);
	if (!c->dips || !c->back) {
		worker_counters_free(c);
		return NULL;
	}
	return c;
}

void worker_counters_free(struct worker_counters *c)
{
	if (!c)
		return;
	hugemem_free(c->dips, DIPS_BYTES);
	hugemem_free(c->back, DIPS_BYTES);
	hugemem_free(c, sizeof(*c));
}
