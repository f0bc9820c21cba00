#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/fault_vfs.h"
#include "tests/unit/persist_equal.h"
#include "tests/unit/random_health.h"
#include "tests/unit/store_model.h"

/* --- the model ----------------------------------------------------------- */

char model_dir[] = "/dev/shm/concury-store-XXXXXX"; /* a sync costs nothing there */
char model_path[64];
unsigned model_seed;

unsigned model_random(unsigned n)
{
	return (unsigned)rand() % n;
}

static void fill_random(void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)rand();
}

static uint64_t random_u64(void)
{
	uint64_t x;

	fill_random(&x, sizeof(x));
	return x;
}

static struct ip_addr random_address(bool v4)
{
	struct ip_addr a;

	fill_random(&a, sizeof(a));
	a.b[0] = 0x20;
	if (v4)
		a = ip_addr_v4((uint8_t[]){10, (uint8_t)rand(), (uint8_t)rand(), 1});
	return a;
}

static void random_conf(struct vip_conf *c)
{
	c->mode = (enum vip_mode)model_random(3);
	c->on_learn_overflow = (enum learn_overflow)model_random(2);
	c->drain_timeout_s = model_random(1000);
	c->closing_pin_s = model_random(1000);
	c->idle_established_s = 1 + model_random(100000);
	c->idle_half_open_s = 1 + model_random(100000);
	c->idle_closing_s = 1 + model_random(100000);
	c->idle_udp_s = 1 + model_random(100000);
	c->gue_port = 1 + model_random(65535);
	c->quic = c->match.protocol == VIP_TCP ? QUIC_FLOW : (enum vip_quic)model_random(2);
	c->quic_config_rotation = model_random(SERVER_ID_ROTATION_MAX + 1);
	c->fragments =
		c->match.protocol == VIP_TCP ? FRAGMENTS_FLOW : (enum vip_fragments)model_random(2);
	c->clamp_mss = c->match.protocol != VIP_UDP && model_random(2);
	random_health(&c->health, model_random);
}

void model_vip_make(struct model *m, unsigned slot)
{
	struct persist_vip *v = &m->vips[slot];

	memset(v, 0, sizeof(*v));
	v->uid = m->next_vip_uid++;
	v->slot = (uint16_t)(slot * 819); /* up to 4095 */
	vip_conf_defaults(&v->conf);
	snprintf(v->conf.id, sizeof(v->conf.id), "vip-%u", slot); /* taken again after a delete */
	v->conf.match.address = random_address(model_random(2));
	v->conf.match.address.b[15] = 2; /* no DIP's, which the rules forbid */
	v->conf.match.port = (uint16_t)model_random(65536);
	if (v->conf.match.port && v->conf.match.port < 65535 && model_random(2))
		v->conf.match.port_end = (uint16_t)(v->conf.match.port + 1 +
						    model_random(65535u - v->conf.match.port));
	if (model_random(3) == 0) { /* of which no DIP has an address */
		v->conf.match.address.b[ip_addr_is_v4(&v->conf.match.address) ? 12 : 0] = 0x30;
		v->conf.match.host_bits = (uint8_t)(1 + model_random(16));
		v->conf.match.address =
			ip_addr_mask(&v->conf.match.address, v->conf.match.host_bits);
	}
	v->conf.match.protocol = (enum vip_protocol)model_random(3);
	v->conf.affinity = (enum vip_affinity)model_random(2);
	v->seed = random_u64();
	v->dcodes = malloc(4096 * sizeof(v->dcodes[0]));
	v->pins = malloc(1000 * sizeof(v->pins[0]));
	v->dips = malloc(MODEL_DIPS * sizeof(v->dips[0]));
	m->used[slot] = true;
}

static void dip_make(struct model *m, struct persist_vip *v)
{
	struct persist_dip *d = &v->dips[v->n_dips++];
	bool taken[MODEL_DIPS + 2] = {[0] = true};

	memset(d, 0, sizeof(*d));
	dip_conf_defaults(&d->conf);
	d->uid = m->next_dip_uid++;
	for (unsigned i = 0; i + 1 < v->n_dips; i++)
		taken[v->dips[i].index % (MODEL_DIPS + 2)] = true;
	do
		d->index = (uint16_t)(model_random(2) ? 1 + model_random(MODEL_DIPS + 1)
						      : 65535 - 65535 % (MODEL_DIPS + 2));
	while (taken[d->index % (MODEL_DIPS + 2)]);
	snprintf(d->conf.id, sizeof(d->conf.id), "b.%u", d->index);
	d->health.verdict = (enum health_verdict)model_random(3);
	d->health.since_s = (int64_t)model_random(1u << 30) * 4;
	d->health.override = (enum health_override)model_random(3);
	d->health.override_until_s = (int64_t)model_random(1u << 30) * 4;
	snprintf(d->health.reason, sizeof(d->health.reason), "reason %u \xe2\x82\xac",
		 model_random(1000));
	d->conf.address = random_address(ip_addr_is_v4(&v->conf.match.address));
}

void model_vip_change(struct model *m, struct persist_vip *v)
{
	random_conf(&v->conf);
	v->deleting = model_random(2);
	v->drain_deadline_s = v->deleting ? 1 + (int64_t)model_random(1u << 30) * 4 : 0;
	v->pin_seed = random_u64();
	v->pin_n_a = (uint32_t)rand();
	v->pin_n_b = (uint32_t)rand();
	if (v->n_dips && model_random(3) == 0) { /* remove one, in order */
		unsigned gone = model_random(v->n_dips--);
		memmove(&v->dips[gone], &v->dips[gone + 1],
			(v->n_dips - gone) * sizeof(v->dips[0]));
	}
	for (unsigned n = model_random(4); n > 0 && v->n_dips < MODEL_DIPS; n--)
		dip_make(m, v);
	for (unsigned i = 0; i < v->n_dips; i++) {
		struct dip_conf *c = &v->dips[i].conf;

		c->weight = model_random(WEIGHT_MAX + 1);
		c->admin_state = (enum admin_state)model_random(2);
		c->has_mac = model_random(2);
		memset(c->mac, 0, sizeof(c->mac));
		if (c->has_mac)
			memcpy(c->mac, (uint8_t[]){2, 0, 0, 0, 0, (uint8_t)rand()}, 6);
		memset(c->server_id, 0, sizeof(c->server_id));
		c->server_id_len = model_random(2) ? (uint8_t)(1 + v->uid % SERVER_ID_MAX) : 0;
		fill_random(c->server_id, c->server_id_len);
		v->dips[i].deleting = model_random(2);
		v->dips[i].drain_deadline_s = model_random(1u << 30);
	}
	v->n_dcodes = v->n_dips ? 1024u << model_random(3) : 0;
	for (uint32_t i = 0; i < v->n_dcodes; i++)
		v->dcodes[i] = model_random(20) ? v->dips[model_random(v->n_dips)].index : DIP_NONE;
	v->n_pins = v->n_dips ? model_random(1000) : 0;
	for (uint32_t i = 0; i < v->n_pins; i++) {
		struct persist_pin *p = &v->pins[i];

		memset(p, 0, sizeof(*p));
		fill_random(&p->key, vip_match_dst_bits(&v->conf.match, v->conf.affinity)
					     ? sizeof(p->key)
					     : offsetof(struct flow_key, dst));
		p->dip = v->dips[model_random(v->n_dips)].index;
		p->exact = (uint8_t)model_random(2);
	}
}

void model_free(struct model *m)
{
	for (unsigned i = 0; i < MODEL_VIPS; i++)
		if (m->used[i])
			persist_vip_free(&m->vips[i]);
}

/* Change the model at random and say so in a transaction. */
void model_step(struct model *m, struct change *c)
{
	memset(c, 0, sizeof(*c));
	c->txn.put = c->put;
	c->txn.delete_uids = c->deleted;
	for (unsigned i = 0; i < MODEL_VIPS; i++) {
		unsigned what = model_random(4);

		if (what == 0)
			continue;
		if (m->used[i] && what == 1) {
			c->deleted[c->txn.n_delete++] = m->vips[i].uid;
			persist_vip_free(&m->vips[i]);
			m->used[i] = false;
			if (model_random(2))
				continue; /* else another VIP takes its id and slot at once */
		}
		if (!m->used[i])
			model_vip_make(m, i);
		model_vip_change(m, &m->vips[i]);
		c->put[c->txn.n_put++] = &m->vips[i];
	}
	c->txn.generation = ++m->generation;
	c->txn.next_dip_uid = m->next_dip_uid;
	c->txn.next_vip_uid = m->next_vip_uid;
}

static bool model_equal(const struct model *m, const struct persist_state *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MODEL_VIPS; i++) {
		bool found = false;

		if (!m->used[i])
			continue;
		n++;
		for (unsigned k = 0; k < s->n_vips; k++)
			found |= persist_vip_equal(&m->vips[i], &s->vips[k]);
		if (!found)
			return false;
	}
	return n == s->n_vips && m->generation == s->generation &&
	       m->next_dip_uid == s->next_dip_uid && m->next_vip_uid == s->next_vip_uid;
}

struct model model_new(void)
{
	return (struct model){.next_dip_uid = 1, .next_vip_uid = 1};
}

/* --- the store's side ---------------------------------------------------- */

struct store *model_open(void)
{
	struct store *s = NULL;
	struct error err = {""};
	int rc = store_open(model_path, &s, &err);

	ck_assert_msg(rc == 0, "open: %d %s", rc, err.message);
	return s;
}

void model_load(struct store *s, struct persist_state *out)
{
	struct error err = {""};
	int rc = store_load(s, out, &err);

	ck_assert_msg(rc == 0, "load: %d %s", rc, err.message);
}

int model_commit(struct store *s, const struct persist_txn *txn, struct error *err)
{
	struct persist p = store_persist(s);
	struct pollfd pfd = {.fd = p.done_fd, .events = POLLIN};
	int rc;

	p.submit(p.ctx, txn);
	ck_assert_int_eq(poll(&pfd, 1, 60000), 1);
	rc = p.poll(p.ctx, err);
	ck_assert_int_ne(rc, 0);
	ck_assert_int_eq(poll(&pfd, 1, 0), 0); /* reset */
	ck_assert_int_eq(p.poll(p.ctx, err), 0);
	return rc;
}

void model_commit_ok(struct store *s, const struct persist_txn *txn)
{
	struct error err = {""};
	int rc = model_commit(s, txn, &err);

	ck_assert_msg(rc == 1, "commit: %d %s", rc, err.message);
}

bool model_is_stored(const struct model *m)
{
	struct store *s = model_open();
	struct persist_state state;
	bool equal;

	model_load(s, &state);
	equal = model_equal(m, &state);
	persist_state_free(&state);
	store_close(s);
	return equal;
}

void model_remove(void)
{
	static const char *const suffixes[] = {"", "-wal", "-journal", "-shm", ".new"};
	char name[80];

	for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
		snprintf(name, sizeof(name), "%s%s", model_path, suffixes[i]);
		unlink(name);
	}
}

/* A database with some VIPs, closed; the model that it holds. */
struct model model_make_stored(void)
{
	struct model m = model_new();
	struct store *s;
	struct change c;

	model_remove();
	s = model_open();
	do {
		model_step(&m, &c);
		model_commit_ok(s, &c.txn);
	} while (m.generation < 5 || !c.txn.n_put);
	store_close(s);
	return m;
}

int model_run(Suite *suite)
{
	const char *given = getenv("SEED");
	SRunner *runner = srunner_create(suite);
	int failed;

	model_seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
	printf("seed %u (SEED=%u repeats it)\n", model_seed, model_seed);
	srand(model_seed);
	log_set_level(LOG_ERROR);
	fault_vfs_install();
	if (!mkdtemp(model_dir))
		return EXIT_FAILURE;
	snprintf(model_path, sizeof(model_path), "%s/concury.db", model_dir);
	srunner_run_all(runner, CK_NORMAL);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	model_remove();
	rmdir(model_dir);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
