/* The one table of commands. A command is a line here and a function in the file of its group. */
#include "api/client/ctl_commands.h"

#define CHANGE "DRY_RUN IF_MATCH OVERRIDE_HOLD"

const struct ctl_command ctl_commands[] = {
	{"vip", "list", "", "", "All VIPs, with their state and traffic.", NULL, ctl_vip_list},
	{"vip", "show", "VIP", "", "All members of a VIP, and its ETag.", NULL, ctl_vip_show},
	{"vip", "create", "VIP ADDRESS[/LENGTH]:PORT[-PORT][/PROTOCOL] [MEMBER=VALUE]...",
	 "DRY_RUN OVERRIDE_HOLD FORCE", "Make a VIP; refused if it is there.",
	 "IPv6 as [ADDRESS]:PORT; port \"any\" is every port. PROTOCOL is tcp (default), udp or "
	 "any. "
	 "--force: although it overlaps another VIP with known flows, some of which may move.",
	 ctl_vip_create},
	{"vip", "set", "VIP MEMBER=VALUE...", CHANGE, "Change members of a VIP.", NULL,
	 ctl_vip_set},
	{"vip", "delete", "VIP", CHANGE " FORCE WAIT",
	 "Drain a VIP and remove it when its last flow has ended.",
	 "--force: remove it at once, with its connections.", ctl_vip_delete},
	{"vip", "cancel", "VIP", "OVERRIDE_HOLD", "Let a VIP that drains stay.", NULL,
	 ctl_vip_cancel},

	{"dip", "list", "VIP", "", "All DIPs of a VIP, with their state and traffic.", NULL,
	 ctl_dip_list},
	{"dip", "show", "VIP DIP", "", "All members of a DIP, and its ETag.", NULL, ctl_dip_show},
	{"dip", "add", "VIP DIP ADDRESS [MEMBER=VALUE]...", "DRY_RUN OVERRIDE_HOLD",
	 "Add a DIP; refused if it is there.", NULL, ctl_dip_add},
	{"dip", "set", "VIP DIP MEMBER=VALUE...", CHANGE, "Change members of a DIP.", NULL,
	 ctl_dip_set},
	{"dip", "drain", "VIP DIP", CHANGE " WAIT",
	 "No new flows; the DIP is removed when its last one has ended.",
	 "It goes after the VIP's drain_timeout_s at the latest.", ctl_dip_drain},
	{"dip", "cut", "VIP DIP", CHANGE, "Remove a DIP at once, with its connections.",
	 "Asks on a terminal; elsewhere --yes is needed.", ctl_dip_cut},
	{"dip", "up", "VIP DIP", CHANGE, "Put a DIP back into service.", NULL, ctl_dip_up},
	{"dip", "down", "VIP DIP", CHANGE, "Take a DIP out of service: no packet goes there.", NULL,
	 ctl_dip_down},
	{"dip", "cancel", "VIP DIP", "OVERRIDE_HOLD", "Let a DIP that drains stay.", NULL,
	 ctl_dip_cancel},

	{"config", "get", "", "", "The whole configuration, as a file that can be applied.", NULL,
	 ctl_config_get},
	{"config", "apply", "", "FILE PRUNE DRY_RUN IF_MATCH OVERRIDE_HOLD",
	 "Make a file the configuration, in one step.",
	 "Shows the differences and what would become of connections, then asks; where nobody can "
	 "be "
	 "asked, --yes is needed. Members that the file does not name get their defaults; VIPs and "
	 "DIPs "
	 "that it does not name are drained, or what --prune says.",
	 ctl_config_apply},

	{"config", "versions", "", "LIMIT", "What the configuration was, the latest version first.",
	 NULL, ctl_config_versions},
	{"config", "show", "VERSION", "", "The configuration as it was, as a file.", NULL,
	 ctl_config_show},
	{"config", "diff", "VERSION [VERSION]", "",
	 "What a version has changed, or what lies between two.", NULL, ctl_config_diff},
	{"config", "rollback", "VERSION", "DRY_RUN IF_MATCH OVERRIDE_HOLD",
	 "Make the configuration what it was, as \"config apply\" would.", NULL,
	 ctl_config_rollback},

	{"health", "show", "VIP [DIP]", "", "What checks say of the DIPs; of one, its history too.",
	 NULL, ctl_health_show},
	{"health", "override", "VIP DIP up|down", "REASON TTL DRY_RUN OVERRIDE_HOLD",
	 "Say what a DIP counts as, whatever its checks say.",
	 "--reason is needed. Without --ttl it holds until \"health clear\".", ctl_health_override},
	{"health", "clear", "VIP DIP", "DRY_RUN OVERRIDE_HOLD", "Heed a DIP's checks again.", NULL,
	 ctl_health_clear},

	{"token", "list", "", "", "Who may use the API.", NULL, ctl_token_list},
	{"token", "create", "TOKEN", "ROLE TTL",
	 "Make a token, and print it: it is shown only now.",
	 "The role is read, if --role does not say else. One that had the name opens nothing any "
	 "more.",
	 ctl_token_create},
	{"token", "delete", "TOKEN", "", "Withdraw a token.", NULL, ctl_token_delete},

	{"", "apply", "", "FILE PRUNE DRY_RUN IF_MATCH OVERRIDE_HOLD",
	 "The same as \"config apply\".", NULL, ctl_config_apply},
	{"", "status", "", "", "What is in use, and what is wrong now.", NULL, ctl_status},
	{"", "counters", "", "", "Traffic, and every drop under its reason.", NULL, ctl_counters},
	{"", "consistency", "", "", "The flows that are known, and that none of them has moved.",
	 NULL, ctl_consistency},
	{"", "audit", "", "", "Ask for every known flow where its next packet would go.", NULL,
	 ctl_audit},
	{"", "flows", "VIP", "DIP CLIENT STATE PINNED LIMIT", "The flows that are known.",
	 "With -o json each page as it came, one document after the other.", ctl_flows},
	{"", "audit-log", "", "LIMIT AUTHOR PATH SINCE", "Who has changed what, and when.", NULL,
	 ctl_audit_log},
	{"", "explain", "VIP SRC SPORT [DPORT] [DST]", "PROTOCOL CID",
	 "Where a connection goes, and why.",
	 "DPORT is needed where the VIP has several ports, DST where it has several addresses.",
	 ctl_explain},
	{"", "trace", "[VIP]", "DIP CLIENT PACKETS SECONDS",
	 "Packets in and out with what was decided about each, as pcapng.",
	 "concuryctl trace web | tcpdump -r -", ctl_trace},
	{"", "events", "", "SINCE KIND VIP FOLLOW", "What has happened; with -f, what happens.",
	 "Without --follow all that is remembered, and no more. With -o json each line is an "
	 "event. A stream "
	 "that breaks off is taken up again where it ended.",
	 ctl_events},
	{"", "top", "", "INTERVAL", "A live view of VIPs and DIPs; q ends it.",
	 "Where standard output is no terminal, one look at the rates and no more.", ctl_top},
	{"", "doctor", "", "", "What the forwarder's machine lacks, and the commands that mend it.",
	 "What concuryd --check looks at, of the running one.", ctl_doctor},
	{"", "limits", "", "", "How much of everything there may be.", NULL, ctl_limits},
	{"", "completion", "SHELL", "", "A script that completes command lines, for bash.",
	 "source <(concuryctl completion bash)", ctl_completion},
	{"", "complete", "[WORD]...", "", "What may follow the words; for the shell.", NULL,
	 ctl_complete},
	{"", "man", "", "", "This page, for man(1).", NULL, ctl_man},
};

const size_t ctl_n_commands = ARRAY_LEN(ctl_commands);
