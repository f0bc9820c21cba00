#include "api/server/codec_fields.h"

static const char *const vip_state_words[] = {"up", "draining", NULL};

#define VIP(m) offsetof(struct vip_info, m)
#define DIP(m) offsetof(struct dip_info, m)

static const struct field idle_fields[] = {
	{"established", K_U32, VIP(conf.idle_established_s), .member = VIP_M_IDLE_ESTABLISHED},
	{"half_open", K_U32, VIP(conf.idle_half_open_s), .member = VIP_M_IDLE_HALF_OPEN},
	{"closing", K_U32, VIP(conf.idle_closing_s), .member = VIP_M_IDLE_CLOSING},
	{"udp", K_U32, VIP(conf.idle_udp_s), .member = VIP_M_IDLE_UDP},
	{.name = NULL},
};

const struct field vip_fields[] = {
	{"id", K_ID, VIP(conf.id), .member = 0},
	{"address", K_ADDRESS, VIP(conf.match.address), .member = VIP_M_ADDRESS, .required = true},
	{"port", K_U16, VIP(conf.match.port), .member = VIP_M_PORT, .max = UINT16_MAX,
	 .required = true},
	{"protocol", K_WORD, VIP(conf.match.protocol), .member = VIP_M_PROTOCOL,
	 .words = vip_protocol_names, .required = true},
	{"mode", K_WORD, VIP(conf.mode), .member = VIP_M_MODE, .words = vip_mode_names},
	{"affinity", K_WORD, VIP(conf.affinity), .member = VIP_M_AFFINITY,
	 .words = vip_affinity_names},
	{"on_learn_overflow", K_WORD, VIP(conf.on_learn_overflow),
	 .member = VIP_M_ON_LEARN_OVERFLOW, .words = learn_overflow_names},
	{"drain_timeout_s", K_U32, VIP(conf.drain_timeout_s), .member = VIP_M_DRAIN_TIMEOUT},
	{"closing_pin_s", K_U32, VIP(conf.closing_pin_s), .member = VIP_M_CLOSING_PIN},
	{"idle_timeout_s", K_OBJECT, 0,
	 .member = VIP_M_IDLE_ESTABLISHED | VIP_M_IDLE_HALF_OPEN | VIP_M_IDLE_CLOSING |
		   VIP_M_IDLE_UDP,
	 .nested = idle_fields},
	{"state", K_FLAG, VIP(deleting), .words = vip_state_words},
	{"dcodes", K_U32, VIP(n_dcodes), .member = 0},
	{"flows", K_U64, VIP(flows), .member = 0},
	{"flows_pinned", K_U64, VIP(flows_pinned), .member = 0},
	{"packets", K_U64, VIP(packets), .member = 0},
	{"bytes", K_U64, VIP(bytes), .member = 0},
	{"drain", K_DRAIN, VIP(drain), .member = 0},
	{"flows_remaining", K_CHANGE, 0, .member = 0},
	{"change", K_CHANGE, 0, .member = 0},
	{.name = NULL},
};

const struct field dip_fields[] = {
	{"id", K_ID, DIP(conf.id), .member = 0},
	{"address", K_ADDRESS, DIP(conf.address), .member = DIP_M_ADDRESS, .required = true},
	{"weight", K_U32, DIP(conf.weight), .member = DIP_M_WEIGHT, .max = WEIGHT_MAX},
	{"mac", K_MAC, DIP(conf), .member = DIP_M_MAC},
	{"admin_state", K_WORD, DIP(conf.admin_state), .member = DIP_M_ADMIN_STATE,
	 .words = admin_state_names},
	{"state", K_WORD, DIP(state), .words = dip_state_names},
	{"dcodes", K_U32, DIP(dcodes), .member = 0},
	{"flows", K_U64, DIP(flows), .member = 0},
	{"packets", K_U64, DIP(packets), .member = 0},
	{"bytes", K_U64, DIP(bytes), .member = 0},
	{"drain", K_DRAIN, DIP(drain), .member = 0},
	{"flows_remaining", K_CHANGE, 0, .member = 0},
	{"change", K_CHANGE, 0, .member = 0},
	{.name = NULL},
};
