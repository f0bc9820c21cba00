#include "worker/counters.h"
#include "api/server/resources.h"

static json_t *print_ifaces(const struct api_traffic *t)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < t->n_ifaces; i++) {
		json_t *iface = json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", t->ifaces[i].name,
					  "rx_packets", (json_int_t)t->ifaces[i].rx_packets,
					  "rx_bytes", (json_int_t)t->ifaces[i].rx_bytes,
					  "tx_packets", (json_int_t)t->ifaces[i].tx_packets,
					  "tx_bytes", (json_int_t)t->ifaces[i].tx_bytes);
		if (json_array_append_new(list, iface)) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

static json_t *print_dips(const struct vip_info *v)
{
	json_t *list = json_array();

	for (unsigned i = 0; list && i < v->n_dips; i++) {
		const struct dip_info *d = &v->dips[i];
		json_t *dip = json_pack("{s:s, s:I, s:I, s:I, s:I}", "id", d->conf.id, "packets",
					(json_int_t)d->packets, "bytes", (json_int_t)d->bytes,
					"return_packets", (json_int_t)d->return_packets,
					"return_bytes", (json_int_t)d->return_bytes);
		if (json_array_append_new(list, dip)) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

static json_t *print_vips(const struct vip_info *vips, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < n; i++) {
		json_t *vip = json_pack(
			"{s:s, s:I, s:I, s:I, s:I, s:o}", "id", vips[i].conf.id, "packets",
			(json_int_t)vips[i].packets, "bytes", (json_int_t)vips[i].bytes,
			"return_packets", (json_int_t)vips[i].return_packets, "return_bytes",
			(json_int_t)vips[i].return_bytes, "dips", print_dips(&vips[i]));
		if (json_array_append_new(list, vip)) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

static json_t *print_drops(const struct api_traffic *t)
{
	json_t *drops = json_object();

	for (unsigned i = 0; drops && i < N_DROP_REASONS; i++) {
		if (json_object_set_new(drops, drop_reason_name[i],
					json_integer((json_int_t)t->drops[i]))) {
			json_decref(drops);
			drops = NULL;
		}
	}
	return drops;
}

void counters_get(struct api_request *req, struct api_response *resp)
{
	const struct api_backend *b = &req->api->backend;
	struct api_traffic t;
	size_t n = 0;
	struct vip_info *vips = b->read_vips(b->ctx, NULL, true, &n);

	b->read_traffic(b->ctx, &t);
	response_json(resp, 200,
		      json_pack("{s:o, s:o, s:o, s:I, s:{s:I, s:I, s:I, s:I}, s:I, s:{s:I, s:I}, "
				"s:{s:I, s:I}}",
				"interfaces", print_ifaces(&t), "vips", print_vips(vips, n),
				"drops", print_drops(&t), "rx_kernel_drops",
				(json_int_t)t.rx_kernel_drops, "learning", "unlearned",
				(json_int_t)t.unlearned, "lost_openings",
				(json_int_t)t.lost_openings, "lost_datagrams",
				(json_int_t)t.lost_datagrams, "lost_refreshes",
				(json_int_t)t.lost_refreshes, "checksums_completed",
				(json_int_t)t.checksums_completed, "answers", "echo",
				(json_int_t)t.echo_replies, "too_big",
				(json_int_t)t.too_big_replies, "quic", "by_id",
				(json_int_t)t.quic_by_id, "by_flow", (json_int_t)t.quic_by_flow));
	b->free_vips(vips, n);
}
