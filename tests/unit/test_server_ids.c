/* Server IDs: the table against a list, and which ID of a QUIC packet counts against a naive
 * reader. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "lookup/server_ids.h"
#include "packet/quic.h"
#include "tests/unit/frames.h"
#include "tests/unit/prng.h"

/* --- the table -----------------------------------------------------------------------------------
 */

#define IDS_MAX 300

struct known {
	uint8_t id[SERVER_ID_MAX];
	uint16_t dip;
};

static struct known list[IDS_MAX];
static unsigned n_known;

static uint16_t naive_find(unsigned len, unsigned rotation, const uint8_t *cid, uint32_t cid_len)
{
	if (cid_len < len + 1 || cid[0] / 32 != rotation)
		return 0;
	for (unsigned i = 0; i < n_known; i++)
		if (memcmp(list[i].id, cid + 1, len) == 0)
			return list[i].dip;
	return 0;
}

static void remember(const uint8_t *id, unsigned len, uint16_t dip)
{
	unsigned i = 0;

	while (i < n_known && memcmp(list[i].id, id, len) != 0)
		i++;
	memcpy(list[i].id, id, len);
	list[i].dip = dip;
	n_known += i == n_known;
}

/* IDs of few values, so that they meet again, with their last octets alone different. */
static void random_id(struct prng *rng, uint8_t *id, unsigned len)
{
	memset(id, 0x5a, len);
	id[len - 1] = (uint8_t)prng_below(rng, 200);
	if (len > 1)
		id[0] = (uint8_t)prng_below(rng, 2);
}

static unsigned ask_some(struct prng *rng, const struct server_ids *t, unsigned len,
			 unsigned rotation)
{
	unsigned n_found = 0;

	for (unsigned k = 0; k < 500; k++) {
		uint32_t cid_len = prng_below(rng, 21);
		uint8_t cid[20];
		cid[0] = (uint8_t)((prng_below(rng, 4) ? rotation : prng_below(rng, 8)) << 5 |
				   prng_below(rng, 32));
		memset(cid + 1, 0xa5, sizeof(cid) - 1);
		random_id(rng, cid + 1, len);
		/* what is behind its end must not be read */
		const uint8_t *guarded = frames_guarded(cid, cid_len);
		uint16_t found = server_ids_find(t, guarded, cid_len);
		expect(found == naive_find(len, rotation, cid, cid_len));
		n_found += found != 0;
	}
	return n_found;
}

START_TEST(finds_like_a_list)
{
	struct prng rng = prng_new("server_ids");
	unsigned n_found = 0, n_asked = 0;

	for (unsigned round = 0; round < REPEATS(400); round++) {
		unsigned len = 1 + prng_below(&rng, SERVER_ID_MAX);
		unsigned rotation = prng_below(&rng, SERVER_ID_ROTATION_MAX + 1);
		unsigned n = prng_below(&rng, IDS_MAX);
		struct server_ids *t = server_ids_new(len, rotation, n, prng_u64(&rng));
		ck_assert_ptr_nonnull(t);
		n_known = 0;
		for (unsigned i = 0; i < n; i++) {
			uint8_t id[SERVER_ID_MAX];
			random_id(&rng, id, len);
			uint16_t dip = (uint16_t)(1 + prng_below(&rng, 32767));
			server_ids_set(t, id, dip);
			remember(id, len, dip);
		}
		n_found += ask_some(&rng, t, len, rotation);
		n_asked += 500;
		server_ids_free(t);
	}
	ck_assert_uint_gt(n_found, n_asked / 10);
	ck_assert_uint_lt(n_found, n_asked * 9 / 10);
	server_ids_free(NULL);
}
END_TEST

/* As many as a VIP can have DIPs, with all of one length. */
START_TEST(holds_what_it_was_made_for)
{
	enum { N = 4096 };
	struct server_ids *t = server_ids_new(2, 3, N, 7);

	for (unsigned i = 0; i < N; i++)
		server_ids_set(t, (const uint8_t[]){(uint8_t)(i >> 8), (uint8_t)i},
			       (uint16_t)(i + 1));
	for (unsigned i = 0; i < 65536; i++) {
		const uint8_t cid[7] = {3 << 5, (uint8_t)(i >> 8), (uint8_t)i};
		expect(server_ids_find(t, cid, sizeof(cid)) == (i < N ? i + 1 : 0));
	}
	server_ids_free(t);
}
END_TEST

/* --- packets -------------------------------------------------------------------------------------
 */

struct naive_cid {
	bool counts;
	unsigned at, len;
};

/* RFC 8999 5.1 and 5.2; RFC 9000 17.2 and RFC 9369 3.2 for the types. */
static struct naive_cid naive_read(const uint8_t *b, unsigned len)
{
	struct naive_cid none = {false, 0, 0};

	if (len == 0)
		return none;
	if (b[0] < 128)
		return (struct naive_cid){true, 1, len - 1 > 20 ? 20 : len - 1};
	if (len < 6 || len < 6u + b[5])
		return none;
	uint32_t version = (uint32_t)b[1] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 8 | b[4];
	unsigned type = b[0] / 16 % 4;
	if (version == 0)
		return none;
	if (version == 1 && (type != 2 || b[5] > 20))
		return none;
	if (version == 0x6b3343cf && (type != 3 || b[5] > 20))
		return none;
	return (struct naive_cid){true, 6, b[5]};
}

START_TEST(reads_ids_like_naively)
{
	static const uint32_t versions[] = {0,		1,	    1,	       0x6b3343cf,
					    0x6b3343cf, 0xff00001d, 0x1a2a3a4a};
	struct prng rng = prng_new("quic_server_cid");
	unsigned n_long = 0, n_short = 0, n_none = 0;

	for (unsigned round = 0; round < REPEATS(200000); round++) {
		uint8_t b[64];
		uint32_t len = prng_below(&rng, prng_below(&rng, 4) ? sizeof(b) : 8), cid_len = 0;
		for (unsigned i = 0; i < sizeof(b); i++)
			b[i] = (uint8_t)prng_u64(&rng);
		uint32_t version = versions[prng_below(&rng, 7)];
		for (unsigned i = 0; i < 4; i++)
			b[1 + i] = (uint8_t)(version >> (24 - 8 * i));
		if (prng_below(&rng, 8))
			b[5] = (uint8_t)prng_below(&rng, 24);
		const uint8_t *data = frames_guarded(b, len);
		const uint8_t *cid = quic_server_cid(data, len, &cid_len);
		struct naive_cid want = naive_read(b, len);
		expect((cid != NULL) == want.counts);
		expect(!cid || (cid == data + want.at && cid_len == want.len));
		n_none += !cid;
		n_short += cid && b[0] < 128;
		n_long += cid && b[0] >= 128;
	}
	ck_assert_uint_gt(n_none, REPEATS(20000));
	ck_assert_uint_gt(n_short, REPEATS(20000));
	ck_assert_uint_gt(n_long, REPEATS(10000));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("server_ids");
	TCase *t = tcase_create("server_ids");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, finds_like_a_list);
	tcase_add_test(t, holds_what_it_was_made_for);
	tcase_add_test(t, reads_ids_like_naively);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
