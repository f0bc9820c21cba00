/* How large chunks are: for MTUs on both sides of each limit, each mode and mixture of drivers a
 * frame of the MTU has to fit.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "io/xsk_frames.h"

/* What each driver's hardware makes of a chunk's room: named here again, by its registers' units.
 */
static const struct {
	const char *name;
	unsigned unit;
} drivers[] = {{"igb", 1024},	 {"igc", 1024},	    {"ixgbe", 1024}, {"i40e", 128}, {"ice", 128},
	       {"mlx5_core", 1}, {"virtio_net", 1}, {"veth", 1},     {"", 1}};

static struct xsk_iface iface(size_t driver, unsigned mtu)
{
	struct xsk_iface i = {.name = "eth0", .mtu = mtu};

	snprintf(i.driver, sizeof(i.driver), "%s", drivers[driver].name);
	return i;
}

static unsigned received(const struct xsk_frames *f, size_t driver)
{
	return (f->chunk - 256) / drivers[driver].unit * drivers[driver].unit;
}

static void check_pair(size_t a, size_t b, unsigned mtu, enum xdp_mode mode)
{
	const struct xsk_iface i[] = {iface(a, mtu), iface(b, 1500)};
	struct xsk_frames f = xsk_frames_plan(i, 2, mode);
	struct error err;

	ck_assert_int_eq(f.multi, mtu > 3498);
	bool fits = f.multi || mtu + 22 <= received(&f, a);
	ck_assert_int_eq(xsk_frames_check_zerocopy(&f, &i[0], &err), fits ? 0 : -EOPNOTSUPP);
	ck_assert(fits || (drivers[a].unit == 1024 && mtu > 3050));
	ck_assert_int_eq(xsk_frames_check_zerocopy(&f, &i[1], &err), 0);
	ck_assert_uint_ge(xsk_frames_mtu(&f), mtu);
	ck_assert_uint_eq(xsk_frames_longest(&f), xsk_frames_mtu(&f) + 22);
}

START_TEST(test_every_frame_has_room)
{
	static const unsigned mtus[] = {68,   1002, 1003, 1280, 1500, 1770, 1771,
					3050, 3051, 3498, 3499, 9000, 9216};

	for (size_t a = 0; a < ARRAY_LEN(drivers); a++)
		for (size_t b = 0; b < ARRAY_LEN(drivers); b++)
			for (size_t m = 0; m < ARRAY_LEN(mtus); m++) {
				check_pair(a, b, mtus[m], XDP_MODE_AUTO);
				check_pair(a, b, mtus[m], XDP_MODE_ZEROCOPY);
			}
}
END_TEST

START_TEST(test_no_more_than_needed)
{
	for (size_t d = 0; d < ARRAY_LEN(drivers); d++) {
		const struct xsk_iface tiny = iface(d, 1002), usual = iface(d, 1500),
				       tagged = iface(d, 1770), large = iface(d, 1771);
		unsigned chunk = drivers[d].unit == 1024 ? 4096 : 2048;

		ck_assert_uint_eq(xsk_frames_plan(&tiny, 1, XDP_MODE_AUTO).chunk, 2048);
		ck_assert_uint_eq(xsk_frames_plan(&usual, 1, XDP_MODE_AUTO).chunk, chunk);
		ck_assert_uint_eq(xsk_frames_plan(&usual, 1, XDP_MODE_ZEROCOPY).chunk, chunk);
		/* The kernel's copy knows bytes. */
		ck_assert_uint_eq(xsk_frames_plan(&usual, 1, XDP_MODE_COPY).chunk, 2048);
		ck_assert_uint_eq(xsk_frames_plan(&tagged, 1, XDP_MODE_GENERIC).chunk, 2048);
		ck_assert_uint_eq(xsk_frames_plan(&large, 1, XDP_MODE_COPY).chunk, 4096);
	}
}
END_TEST

/* An interface that comes under an old name may have another driver than the memory was made for.
 */
START_TEST(test_another_driver_later)
{
	const struct xsk_iface first = iface(6, 1500), later = iface(0, 1500);
	struct xsk_frames f = xsk_frames_plan(&first, 1, XDP_MODE_AUTO);
	struct error err;

	ck_assert_int_eq(xsk_frames_check_zerocopy(&f, &later, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(
		strstr(err.message, "eth0: its driver igb takes packets of 1002 bytes"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("xsk_frames");
	TCase *tc = tcase_create("chunks");

	tcase_add_test(tc, test_every_frame_has_room);
	tcase_add_test(tc, test_no_more_than_needed);
	tcase_add_test(tc, test_another_driver_later);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
