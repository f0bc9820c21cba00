/* Frames made by another program (tests/golden/make.py, scapy), as they come in and as they have to
 * leave, compared byte for byte; and frames that must not leave, with the reason why. */
#include <arpa/inet.h>
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "packet/checksum.h"
#include "packet/icmp.h"
#include "packet/mss.h"
#include "packet/nat.h"
#include "tests/unit/frames.h"
#include "worker/fragment_cache.h"

#define GOLDEN "tests/golden/" /* from the top of the tree, where tests/run.sh starts tests */
#define HEADROOM 64
#define FRAME_CAP 4096
#define PCAP_MAGIC 0xa1b2c3d4u

static const uint8_t egress_mac[6] = {2, 0, 0, 0, 1, 0}, next_hop_mac[6] = {2, 0, 0, 0, 1, 0x99};

struct golden_case {
	char name[128], action[16], address[64], outcome[32];
	uint32_t port, mtu, headroom;
	uint64_t hash;
};

static FILE *open_file(const char *path)
{
	FILE *f = fopen(path, "rb");

	ck_assert_msg(f != NULL, "%s: cannot be opened (run from the top of the tree)", path);
	return f;
}

static FILE *open_pcap(const char *path)
{
	FILE *f = open_file(path);
	uint32_t header[6];

	ck_assert_uint_eq(fread(header, sizeof(header), 1, f), 1);
	ck_assert_msg(header[0] == PCAP_MAGIC, "%s: no pcap of this byte order", path);
	return f;
}

/* Length of the next frame, 0 at the end. */
static uint32_t read_pcap(FILE *f, uint8_t *buf)
{
	uint32_t record[4];

	if (fread(record, sizeof(record), 1, f) != 1)
		return 0;
	ck_assert_uint_le(record[2], FRAME_CAP);
	ck_assert_uint_eq(record[2], record[3]);
	ck_assert_uint_eq(fread(buf, record[2], 1, f), 1);
	return record[2];
}

/* As the pipeline names them. */
static const char *const parse_outcomes[] = {
	[PARSE_MALFORMED] = "malformed", [PARSE_FRAGMENT] = "fragment_timeout",
	[PARSE_NOT_IP] = "no_vip",	 [PARSE_NOT_L4] = "not_l4",
	[PARSE_ECHO] = "echo",
};
static const char *const rewrite_outcomes[] = {
	[REWRITE_OK] = "ok",
	[REWRITE_TOO_BIG] = "frame_too_big",
	[REWRITE_NO_HEADROOM] = "no_headroom",
	[REWRITE_FAMILY] = "family_mismatch",
	[REWRITE_TTL] = "ttl_expired",
	[REWRITE_UNTRANSLATABLE] = "untranslatable",
};

static enum rewrite_result rewrite(const struct golden_case *c, uint8_t **data, uint32_t *len,
				   struct packet *p)
{
	struct ip_addr address = frames_ip(c->address);
	struct rewrite_to to = {
		.address = &address,
		.dst_mac = next_hop_mac,
		.src_mac = egress_mac,
		.mtu = c->mtu,
		.hash = c->hash,
		.gue_port = (uint16_t)c->port,
		.nat_port_be = htons((uint16_t)c->port),
	};

	if (strcmp(c->action, "l2") == 0)
		return rewrite_l2(*data, *len, p, &to);
	if (strcmp(c->action, "ipip") == 0)
		return rewrite_ipip(data, len, c->headroom, p, &to);
	if (strcmp(c->action, "gue") == 0)
		return rewrite_gue(data, len, c->headroom, p, &to);
	if (strcmp(c->action, "nat") == 0)
		return rewrite_nat(*data, p, &to);
	ck_assert_msg(strcmp(c->action, "nat-back") == 0, "%s: unknown action %s", c->name,
		      c->action);
	ck_assert_msg(nat_fits(p, &address), "%s", c->name);
	nat_set_source(*data, p, &address, to.nat_port_be);
	return REWRITE_OK;
}

/* Remember a first fragment's ports; tell another one of them. */
static bool know_ports(struct packet *p)
{
	static struct fragment_cache *cache;

	if (!cache)
		cache = fragment_cache_new();
	ck_assert_ptr_nonnull(cache);
	uint64_t tag = fragment_cache_tag(cache, p);
	if (p->kind == PACKET_LATER)
		return fragment_cache_find(cache, tag, 0, p);
	fragment_cache_put(cache, tag, p, 0);
	return true;
}

/* What comes of the frame, by name. */
static const char *do_case(const struct golden_case *c, uint8_t **data, uint32_t *len)
{
	struct packet p;
	enum parse_result r = parse_packet(*data, *len, &p);

	if (r == PARSE_ECHO && strcmp(c->action, "echo") == 0)
		return icmp_answer_echo(*data, &p) ? "ok" : "not_l4";
	if (r == PARSE_FRAGMENT && know_ports(&p))
		r = PARSE_OK;
	if (r != PARSE_OK)
		return parse_outcomes[r];
	if (strcmp(c->action, "too-big") == 0)
		return icmp_answer_too_big(data, len, c->headroom, &p, c->mtu) ? "ok"
									       : "frame_too_big";
	if (strcmp(c->action, "mss") == 0)
		return mss_clamp(*data, &p, c->mtu) ? "ok" : "kept";
	bool completed = checksum_apply(CHECKSUM_AUTO, *data, &p);
	ck_assert_msg(completed == (strcmp(c->action, "checksum") == 0), "%s", c->name);
	return completed ? "ok" : rewrite_outcomes[rewrite(c, data, len, &p)];
}

static void compare(const char *name, const uint8_t *got, uint32_t got_len, const uint8_t *want,
		    uint32_t want_len)
{
	ck_assert_msg(got_len == want_len, "%s: %" PRIu32 " bytes, not %" PRIu32, name, got_len,
		      want_len);
	for (uint32_t i = 0; i < want_len; i++)
		ck_assert_msg(got[i] == want[i], "%s: byte %" PRIu32 " is %02x, not %02x", name, i,
			      got[i], want[i]);
}

static bool read_case(FILE *cases, struct golden_case *c)
{
	return fscanf(cases, "%127s %15s %63s %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNx64 " %31s",
		      c->name, c->action, c->address, &c->port, &c->mtu, &c->headroom, &c->hash,
		      c->outcome) == 8;
}

START_TEST(test_golden_frames)
{
	static uint8_t buf[HEADROOM + FRAME_CAP], want[FRAME_CAP];
	FILE *cases = open_file(GOLDEN "cases.txt");
	FILE *in = open_pcap(GOLDEN "in.pcap"), *out = open_pcap(GOLDEN "out.pcap");
	struct golden_case c;
	unsigned n = 0;

	while (read_case(cases, &c)) {
		uint8_t *data = buf + HEADROOM;
		uint32_t len = read_pcap(in, data), want_len = len;

		ck_assert_msg(len > 0, "%s: no frame", c.name);
		memcpy(want, data, len); /* stays as it is, if it is dropped */
		const char *outcome = do_case(&c, &data, &len);
		ck_assert_msg(strcmp(outcome, c.outcome) == 0, "%s: %s, not %s", c.name, outcome,
			      c.outcome);
		if (strcmp(outcome, "ok") == 0)
			want_len = read_pcap(out, want);
		compare(c.name, data, len, want, want_len);
		n++;
	}
	ck_assert(feof(cases));
	ck_assert_uint_eq(read_pcap(in, want), 0);
	ck_assert_uint_eq(read_pcap(out, want), 0);
	ck_assert_uint_ge(n, 1000);
	fclose(cases);
	fclose(in);
	fclose(out);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("golden");
	TCase *tc = tcase_create("golden");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, test_golden_frames);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
