/* What control tells of VIPs, told to steer. */
#include "io/xsk_impl.h"

static int steering_add(void *ctx, const struct vip_match *m, struct error *err)
{
	return steer_add_vip(ctx, m, err);
}

static int steering_del(void *ctx, const struct vip_match *m, struct error *err)
{
	return steer_del_vip(ctx, m, err);
}

static int steering_add_back(void *ctx, const struct back_key *key, const struct ip_addr *vip,
			     struct error *err)
{
	return steer_add_back(steer_backs(ctx), key, vip, err);
}

static int steering_del_back(void *ctx, const struct back_key *key, struct error *err)
{
	return steer_del_back(steer_backs(ctx), key, err);
}

static int steering_set_outs(void *ctx, const int ifindexes[STEER_STACKED_MAX], struct error *err)
{
	return steer_set_outs(steer_backs(ctx), ifindexes, err);
}

static unsigned steering_take_hops(void *ctx, struct back_hop *hops, unsigned n)
{
	return steer_take_hops(steer_backs(ctx), hops, n);
}

struct steering xsk_steering(struct xsk *x)
{
	return (struct steering){.ctx = x->steer,
				 .add = steering_add,
				 .del = steering_del,
				 .add_back = steering_add_back,
				 .del_back = steering_del_back,
				 .set_outs = steering_set_outs,
				 .take_hops = steering_take_hops};
}
