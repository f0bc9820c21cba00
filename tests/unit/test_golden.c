/* Frames made by another program (golden/generate.py, scapy) in pairs, as they come in and as they
 * have to leave, compared byte for byte. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "packet/checksum.h"
#include "packet/rewrite.h"
#include "tests/unit/frames.h"

#define GOLDEN "tests/unit/golden/" /* from the top of the tree, where tests/run.sh starts tests   \
				     */
#define HEADROOM 64
#define FRAME_CAP 4096
#define PCAP_MAGIC 0xa1b2c3d4u

static const uint8_t egress_mac[6] = {2, 0, 0, 0, 1, 0}, next_hop_mac[6] = {2, 0, 0, 0, 1, 0x99};

struct golden_case {
	char name[128], rewrite[16], dip[64];
	uint32_t mtu;
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

static void do_case(const struct golden_case *c, uint8_t **data, uint32_t *len)
{
	struct rewrite_to to = {
		.address = frames_ip(c->dip),
		.dst_mac = next_hop_mac,
		.src_mac = egress_mac,
		.mtu = c->mtu,
		.hash = c->hash,
	};
	struct packet p;

	ck_assert_msg(parse_packet(*data, *len, &p) == PARSE_OK, "%s does not parse", c->name);
	if (strcmp(c->rewrite, "l2") == 0) {
		ck_assert_msg(!checksum_apply(CHECKSUM_AUTO, *data, &p), "%s", c->name);
		ck_assert_msg(rewrite_l2(*data, *len, &p, &to) == REWRITE_OK, "%s", c->name);
	} else if (strcmp(c->rewrite, "ipip") == 0) {
		ck_assert_msg(!checksum_apply(CHECKSUM_AUTO, *data, &p), "%s", c->name);
		ck_assert_msg(rewrite_ipip(data, len, HEADROOM, &p, &to) == REWRITE_OK, "%s",
			      c->name);
	} else if (strcmp(c->rewrite, "checksum") == 0) {
		ck_assert_msg(checksum_apply(CHECKSUM_AUTO, *data, &p), "%s", c->name);
	} else {
		ck_abort_msg("%s: unknown rewrite %s", c->name, c->rewrite);
	}
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

START_TEST(test_golden_frames)
{
	static uint8_t buf[HEADROOM + FRAME_CAP], want[FRAME_CAP];
	FILE *cases = open_file(GOLDEN "cases.txt");
	FILE *in = open_pcap(GOLDEN "in.pcap"), *out = open_pcap(GOLDEN "out.pcap");
	struct golden_case c;
	unsigned n = 0;

	while (fscanf(cases, "%127s %15s %63s %" SCNu32 " %" SCNx64, c.name, c.rewrite, c.dip,
		      &c.mtu, &c.hash) == 5) {
		uint8_t *data = buf + HEADROOM;
		uint32_t len = read_pcap(in, data), want_len = read_pcap(out, want);

		ck_assert_msg(len > 0 && want_len > 0, "%s: no frame", c.name);
		do_case(&c, &data, &len);
		compare(c.name, data, len, want, want_len);
		n++;
	}
	ck_assert(feof(cases));
	ck_assert_uint_eq(read_pcap(in, want), 0);
	ck_assert_uint_eq(read_pcap(out, want), 0);
	ck_assert_uint_ge(n, 100);
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
