// Where a client's packets go and why; and a recording of them to look at with tcpdump or Wireshark.

import {get, query, stream} from "./api.js";
import {card, h, text} from "./dom.js";
import {clearErrors, field, showErrors} from "./form.js";
import {bytes, count, endpoint} from "./format.js";
import {known, mayChange} from "./state.js";

const REASONS = {
	home: "Its hash names the DIP: nothing else is needed.",
	pin: "It is a known flow that lives on another DIP than the one its hash names today, and is pinned there.",
	exact: "It was learned since the last plan, and stands in the exact table until the next publish.",
	reroll: "The DIP that its hash names is down, so the hash is taken on to the next one that is up.",
	server_id: "Its QUIC connection ID names the DIP that chose it.",
	none: "No DIP is usable: its packets are dropped as no_dip.",
};

const several = (v) => v.port === 0 || v.port_end !== null;

function questionFields() {
	return {
		vip: field("vip", {label: "VIP", kind: "select", options: known.vips.map((v) => v.id), pointer: "?vip"}),
		src: field("src", {label: "Client address", placeholder: "192.0.2.7", pointer: "?src"}),
		sport: field("sport", {label: "Client port", kind: "number", placeholder: "40000", pointer: "?sport"}),
		dst: field("dst", {label: "Destination address", hint: "the VIP has several", pointer: "?dst"}),
		dport: field("dport", {label: "Destination port", kind: "number", hint: "the VIP has several", pointer: "?dport"}),
		protocol: field("protocol", {label: "Protocol", kind: "select", options: ["tcp", "udp"], pointer: "?protocol"}),
		cid: field("cid", {label: "QUIC connection ID", hint: "hexadecimal; of a short header", pointer: "?cid"}),
	};
}

/** A packet's way, station by station. */
function wayOf(a, vip, question) {
	const station = (name, value, kind = "") => h("li", {data: {kind}}, h("span", {class: "dim"}, name), h("strong", {class: "mono"}, value));
	const from = `${question.src}${question.sport ? `, port ${question.sport}` : ""}`;
	return [
		h("ol", {class: "way", "aria-label": "The way of its packets"},
			station("Client", from), station("VIP", `${vip.id} (${endpoint(vip)})`), station("Dcode of its hash", count(a.dcode)),
			station("Decided by", a.reason, a.reason === "none" ? "bad" : a.reason === "home" ? "good" : "warn"),
			station("DIP", a.dip ?? "none", a.dip ? "good" : "bad")),
		h("p", {}, REASONS[a.reason] || "", " ", a.known ? "The flow is known." : "The flow is not known: so it would go if it began now.",
			` As of generation ${count(a.generation)}.`),
	];
}

function explainCard(fields, first) {
	const fault = h("p", {class: "form-error", role: "alert"});
	const answer = h("div", {class: "answer", "aria-live": "polite"}, h("p", {class: "dim"}, "Ask, and see which DIP it is, and why."));
	const all = Object.values(fields);

	async function ask(event) {
		event?.preventDefault();
		const question = {};
		for (const [name, f] of Object.entries(fields))
			if (!f.hidden)
				question[name] = f.control.value.trim();
		try {
			const a = await get(`/v1/explain${query(question)}`);
			clearErrors(all, fault);
			answer.replaceChildren(...wayOf(a, known.vips.find((v) => v.id === a.vip) || {id: a.vip}, question));
		} catch (e) {
			showErrors(e, all, fault);
			answer.replaceChildren();
		}
	}
	const e = card("Where does a client go?", h("form", {novalidate: true, onsubmit: ask}, h("div", {class: "fields wide"}, all), fault,
		h("div", {class: "buttons start"}, h("button", {type: "submit", class: "primary"}, "Explain"))), answer);
	if (first)
		queueMicrotask(ask);
	return e;
}

function save(chunks, name) {
	const url = URL.createObjectURL(new Blob(chunks, {type: "application/x-pcapng"}));
	h("a", {href: url, download: name}).click();
	setTimeout(() => URL.revokeObjectURL(url), 60000);
}

function traceCard(fields) {
	const more = {
		packets: field("packets", {label: "Packets", kind: "number", value: 100, hint: "at most 10,000", pointer: "?packets"}),
		seconds: field("seconds", {label: "Seconds", kind: "number", value: 10, hint: "at most 60", pointer: "?seconds"}),
		snap: field("snap", {label: "Bytes of each", kind: "number", value: 256, hint: "14 to 1,920", pointer: "?snap"}),
	};
	const all = [...Object.values(more), fields.src, fields.sport, fields.dst, fields.dport];
	const fault = h("p", {class: "form-error", role: "alert"});
	const progress = h("p", {class: "dim", role: "status"}, "A pcapng file; each packet's comment says which DIP it went to and why, or why it was dropped.");
	const start = h("button", {type: "submit", class: "primary"}, "Record and download");
	const stop = h("button", {type: "button", hidden: true, onclick: () => abort.abort()}, "Stop");
	let abort = new AbortController();

	async function read(response, chunks) {
		const reader = response.body.getReader();
		let n = 0;
		for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
			chunks.push(piece.value);
			n += piece.value.length;
			text(progress, `Recording: ${bytes(n)} so far`);
		}
		return n;
	}
	async function record(event) {
		event.preventDefault();
		const question = {vip: fields.vip.control.value};
		for (const f of all)
			if (!f.hidden)
				question[f.control.name] = f.control.value.trim();
		abort = new AbortController();
		start.disabled = true;
		stop.hidden = false;
		clearErrors(all, fault);
		try {
			const chunks = [];
			const n = await read(await stream(`/v1/trace${query(question)}`, {signal: abort.signal}), chunks);
			save(chunks, `concury-${question.vip || "all"}.pcapng`);
			text(progress, `Done: ${bytes(n)} saved`);
		} catch (e) {
			if (abort.signal.aborted)
				text(progress, "Stopped; nothing is saved");
			else
				showErrors(e, all, fault);
		}
		start.disabled = false;
		stop.hidden = true;
	}
	const e = card("Record packets", h("p", {}, "Of the VIP, and the client if one is given, above."),
		h("form", {novalidate: true, onsubmit: record}, h("div", {class: "fields wide"}, Object.values(more)), fault,
			h("div", {class: "buttons start"}, start, stop)), progress);
	e.end = () => abort.abort();
	return e;
}

export function explainPage(main, _args, asked) {
	const fields = questionFields();
	for (const [name, f] of Object.entries(fields))
		if (asked.get(name))
			f.control.value = asked.get(name);
	const trace = traceCard(fields);
	const show = () => {
		const v = known.vips.find((x) => x.id === fields.vip.control.value);
		fields.sport.hidden = v?.affinity === "client";
		fields.dst.hidden = !v?.address.includes("/");
		fields.dport.hidden = !v || !several(v);
		fields.protocol.hidden = v?.protocol !== "any";
		fields.cid.hidden = v?.quic !== "server-id";
	};
	fields.vip.control.addEventListener("change", show);
	show();
	main.append(h("h1", {}, "Explain"), explainCard(fields, asked.get("src")), trace);
	return {
		update() {
			trace.hidden = !mayChange();
			const select = fields.vip.control;
			const ids = known.vips.map((v) => v.id);
			if ([...select.options].map((o) => o.value).join(" ") !== ids.join(" ")) {
				const chosen = select.value;
				select.replaceChildren(...ids.map((id) => h("option", {value: id, selected: id === chosen}, id)));
				show();
			}
		},
		end() {
			trace.end();
		},
	};
}
