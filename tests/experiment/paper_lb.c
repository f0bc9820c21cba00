/* The baseline is built as kindly as the paper's text allows, so that what it loses is due to its
 * protocol alone. A new flow takes the Dcode that the arrays (random at first) yield for it, and
 * goes to the Dcode's DIP. Its host agent reports it; then control knows {flow, Dcode, DIP}. A
 * change of the pool moves the fewest Dcodes, and each reported flow whose Dcode names another DIP
 * now is given a Dcode of its own DIP. The arrays are not drawn anew for that, as they might be:
 * the difference between old and new Dcodes is itself an Othello, zero wherever nothing has to
 * change, and is added (XOR) to the arrays in place. So a flow that was not reported is lost only
 * where its Dcode was moved or where one of its two cells had to change for another flow's sake. */
#include "tests/experiment/paper_lb.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/entropy.h"
#include "lookup/othello_graph.h"
#include "lookup/othello_map.h"
#include "packet/rewrite.h"
#include "tests/bench/peers/peer.h"

/* The state of every flow, its Dcode, in the 16-bit cells of an Othello, and a table from Dcodes to
 * DIPs. */
struct paper {
	uint64_t seed;	      /* of the flows' hash */
	struct othello shape; /* seed and sizes; arrays below */
	uint16_t *a;	      /* hugemem */
	uint16_t *b;
	uint16_t *dips; /* by Dcode, hugemem */
	uint32_t n_dcodes;
};

struct paper_lb {
	struct paper_lb_config config;
	struct paper paper;
	struct dcode_table table;
	uint32_t weights[PAPER_DIPS_MAX + 1];
	uint32_t n_reported;
	uint64_t *hashes; /* of reported flows */
	uint32_t *dcodes; /* 16 bits: a table that grows uses more of them */
	uint16_t *dips;
};

static void *must(void *p)
{
	if (!p) {
		fprintf(stderr, "no memory\n");
		abort();
	}
	return p;
}

/* --- the tables
 * ------------------------------------------------------------------------------------ */

static void next_table(struct paper_lb *lb, const uint32_t *weights, struct dcode_table *out)
{
	struct dcode_dip dips[PAPER_DIPS_MAX];
	unsigned n = 0;

	for (unsigned d = 1; d <= PAPER_DIPS_MAX; d++) {
		uint32_t weight = weights[d] ? weights[d] : lb->weights[d] ? 1 : 0;
		if (weight)
			dips[n++] = (struct dcode_dip){
				.id = d, .weight = weight, .index = (uint16_t)d, .up = true};
		lb->weights[d] = weight;
	}
	if (dcode_table_next(&lb->table, dips, n, out, NULL))
		must(NULL);
}

static void publish_table(struct paper_lb *lb, struct dcode_table *t)
{
	if (lb->paper.dips)
		hugemem_free(lb->paper.dips, lb->paper.n_dcodes * sizeof(*lb->paper.dips));
	dcode_table_destroy(&lb->table);
	lb->table = *t;
	lb->paper.n_dcodes = t->n;
	lb->paper.dips = peer_alloc(t->n * sizeof(*lb->paper.dips));
	memcpy(lb->paper.dips, t->dcodes, t->n * sizeof(*lb->paper.dips));
}

/* Values into zeroed arrays of the shape; false if the graph has a cycle. */
static bool write_arrays(const struct othello *shape, uint32_t n, const uint64_t *hashes,
			 const uint32_t *values, struct othello *out)
{
	struct othello_edge *edges = must(calloc(n, sizeof(*edges)));
	struct othello_peel peel;

	if (othello_peel_init(&peel, n, shape->n_a, shape->n_b))
		must(NULL);
	othello_graph_edges(shape, hashes, n, edges);
	bool acyclic = othello_peel_run(&peel, edges, n, shape->n_a, shape->n_b);
	if (acyclic && out)
		othello_graph_write(&peel, edges, values, out);
	othello_peel_destroy(&peel);
	free(edges);
	return acyclic;
}

static void init_arrays(struct paper_lb *lb)
{
	const struct paper_lb_config *c = &lb->config;
	struct paper *p = &lb->paper;
	uint64_t *hashes = must(calloc(c->n_flows, sizeof(*hashes)));

	p->seed = entropy_u64();
	for (uint32_t i = 0; i < c->n_flows; i++)
		hashes[i] = flow_key_hash(&c->flows[i], p->seed);
	othello_map_size(c->n_flows, &p->shape.n_a, &p->shape.n_b);
	do
		p->shape.seed = entropy_u64();
	while (!write_arrays(&p->shape, c->n_flows, hashes, NULL, NULL));
	free(hashes);
	p->a = peer_alloc(p->shape.n_a * sizeof(*p->a));
	p->b = peer_alloc(p->shape.n_b * sizeof(*p->b));
	for (uint32_t i = 0; i < p->shape.n_a; i++)
		p->a[i] = (uint16_t)entropy_u64();
	for (uint32_t i = 0; i < p->shape.n_b; i++)
		p->b[i] = (uint16_t)entropy_u64();
}

struct paper_lb *paper_lb_new(const struct paper_lb_config *c, const uint32_t *weights)
{
	struct paper_lb *lb = must(calloc(1, sizeof(*lb)));
	struct dcode_table t;

	lb->config = *c;
	lb->hashes = must(calloc(c->n_flows, sizeof(*lb->hashes)));
	lb->dcodes = must(calloc(c->n_flows, sizeof(*lb->dcodes)));
	lb->dips = must(calloc(c->n_flows, sizeof(*lb->dips)));
	init_arrays(lb);
	next_table(lb, weights, &t);
	publish_table(lb, &t);
	return lb;
}

void paper_lb_free(struct paper_lb *lb)
{
	if (!lb)
		return;
	hugemem_free(lb->paper.a, lb->paper.shape.n_a * sizeof(*lb->paper.a));
	hugemem_free(lb->paper.b, lb->paper.shape.n_b * sizeof(*lb->paper.b));
	hugemem_free(lb->paper.dips, lb->paper.n_dcodes * sizeof(*lb->paper.dips));
	dcode_table_destroy(&lb->table);
	free(lb->hashes);
	free(lb->dcodes);
	free(lb->dips);
	free(lb);
}

/* --- packets
 * --------------------------------------------------------------------------------------- */

static uint32_t dcode_of(const struct paper_lb *lb, uint64_t hash)
{
	uint32_t ia, ib;

	othello_cells(&lb->paper.shape, hash, &ia, &ib);
	return lb->paper.a[ia] ^ lb->paper.b[ib];
}

unsigned paper_lb_lookup(const struct paper_lb *lb, const struct flow_key *key)
{
	uint32_t dcode = dcode_of(lb, flow_key_hash(key, lb->paper.seed));

	return lb->paper.dips[dcode & (lb->paper.n_dcodes - 1)];
}

static void forward(struct paper_lb *lb, struct frame *f)
{
	struct packet p;

	if (!f->more && parse_packet(f->data, f->len, &p) == PARSE_OK &&
	    ip_addr_equal(&p.dst, &lb->config.vip)) {
		struct flow_key key = {.src = p.src,
				       .sport_be = p.sport_be,
				       .dport_be = p.dport_be,
				       .proto = p.proto};
		unsigned dip = paper_lb_lookup(lb, &key);
		struct rewrite_to to = {.dst_mac = lb->config.macs[dip],
					.src_mac = lb->config.src_mac,
					.mtu = 1500};
		if (dip && rewrite_l2(f->data, f->len, &p, &to) == REWRITE_OK &&
		    port_tx(lb->config.port, f->iface, f, 1) == 1)
			return;
	}
	port_free(lb->config.port, f, 1);
}

unsigned paper_lb_round(struct paper_lb *lb)
{
	struct frame frames[BURST_MAX];
	unsigned n = port_rx(lb->config.port, 0, frames, BURST_MAX);

	for (unsigned i = 0; i < n; i++)
		forward(lb, &frames[i]);
	port_flush(lb->config.port);
	return n;
}

/* --- control
 * --------------------------------------------------------------------------------------- */

void paper_lb_report(struct paper_lb *lb, const struct flow_key *key, unsigned dip)
{
	uint64_t hash = flow_key_hash(key, lb->paper.seed);
	uint32_t i = lb->n_reported++;

	assert(i < lb->config.n_flows);
	lb->hashes[i] = hash;
	lb->dcodes[i] = dcode_of(lb, hash);
	lb->dips[i] = (uint16_t)dip;
}

/* A random Dcode of the DIP, in all 16 bits. */
static uint32_t draw_dcode(const struct dcode_table *t, unsigned dip)
{
	uint32_t dcode = (uint32_t)entropy_u64() & 0xffff;

	while (t->dcodes[dcode & (t->n - 1)] != dip) /* from a random place on */
		dcode = (dcode + 1) & 0xffff;
	return dcode;
}

static double share_changed(uint16_t *cells, const uint32_t *delta, uint32_t n)
{
	uint32_t n_changed = 0;

	for (uint32_t i = 0; i < n; i++) {
		cells[i] ^= (uint16_t)delta[i];
		n_changed += delta[i] != 0;
	}
	return (double)n_changed / n;
}

/* Returns the share of pairs of cells that were changed. */
static double edit_arrays(struct paper_lb *lb, const struct dcode_table *t)
{
	uint32_t *delta = must(calloc(lb->n_reported, sizeof(*delta)));
	const struct othello *shape = &lb->paper.shape;
	struct othello o;

	for (uint32_t i = 0; i < lb->n_reported; i++) {
		if (t->dcodes[lb->dcodes[i] & (t->n - 1)] == lb->dips[i])
			continue;
		uint32_t dcode = draw_dcode(t, lb->dips[i]);
		delta[i] = lb->dcodes[i] ^ dcode;
		lb->dcodes[i] = dcode;
	}
	if (othello_init(&o, shape->n_a, shape->n_b, shape->seed))
		must(NULL);
	bool acyclic = write_arrays(shape, lb->n_reported, lb->hashes, delta, &o);
	assert(acyclic);
	double a = share_changed(lb->paper.a, o.a, o.n_a);
	double b = share_changed(lb->paper.b, o.b, o.n_b);
	othello_destroy(&o);
	free(delta);
	return 1 - (1 - a) * (1 - b);
}

static void compare_tables(const struct dcode_table *old, const struct dcode_table *new,
			   struct paper_change *c)
{
	double before[PAPER_DIPS_MAX + 1] = {0}, after[PAPER_DIPS_MAX + 1] = {0};
	double same = 0; /* two Dcodes, one before and one after, that name the same DIP */

	for (uint32_t i = 0; i < new->n; i++) {
		uint16_t was = old->dcodes[i & (old->n - 1)];
		before[was] += 1.0 / new->n;
		after[new->dcodes[i]] += 1.0 / new->n;
		c->moved += (was != new->dcodes[i]) * 1.0 / new->n;
	}
	for (unsigned d = 1; d <= PAPER_DIPS_MAX; d++)
		same += before[d] * after[d];
	c->wrong = (1 - c->disturbed) * c->moved + c->disturbed * (1 - same);
}

struct paper_change paper_lb_change(struct paper_lb *lb, const uint32_t *weights)
{
	struct paper_change c = {.n_reported = lb->n_reported};
	struct dcode_table t;

	next_table(lb, weights, &t);
	if (lb->n_reported)
		c.disturbed = edit_arrays(lb, &t);
	compare_tables(&lb->table, &t, &c);
	publish_table(lb, &t);
	return c;
}
