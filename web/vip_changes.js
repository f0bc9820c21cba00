// The changes of VIPs and DIPs, each a dialog of change.js.

import {call, path} from "./api.js";
import {change} from "./change.js";
import {field} from "./form.js";
import {toast} from "./dialog.js";
import {count, plural} from "./format.js";
import {go} from "./router.js";

/** The resource as it is now, with its tag; null, and a note, if it is gone. */
async function look(target) {
	try {
		return await call(target);
	} catch (e) {
		toast(e.message, "bad");
		return null;
	}
}

function bodyOf(fields) {
	const body = {};
	for (const f of fields) {
		const v = f.read();
		if (v !== "" && v !== null)
			body[f.control.name] = v;
	}
	return body;
}

const landed = (what) => ({body}) => `${what} (generation ${count(body.change.generation)}, pause ${count(body.change.pause_us)} µs)`;

function left(what, verb) {
	return ({body, status}) => status === 202 ? `${what} drains: ${plural(body.flows_remaining, "flow")} to go` : `${what} ${verb}`;
}

export async function createVip() {
	const id = field("id", {label: "Id", placeholder: "web", hint: "small letters, digits, . _ -"});
	const fields = [
		id,
		field("address", {label: "Address", placeholder: "10.9.0.100", hint: "or a prefix"}),
		field("port", {label: "Port", kind: "number", value: 80, hint: "0: any"}),
		field("protocol", {label: "Protocol", kind: "select", options: ["tcp", "udp", "any"], value: "tcp"}),
		field("mode", {label: "Mode", kind: "select", options: ["l2", "ipip", "gue", "nat"], value: "l2", hint: "how packets reach the DIPs"}),
		field("affinity", {label: "Affinity", kind: "select", options: ["flow", "client"], value: "flow", hint: "what stays together"}),
	];
	const check = field("health", {label: "Health check", kind: "select", options: ["none", "tcp", "http", "https"], value: "none", pointer: "/health"});
	const all = [...fields, check];
	const answer = await change({
		title: "Add a VIP", fields: all, method: "PUT", createOnly: true, preview: false, verb: "Add",
		body: () => ({...bodyOf(fields), ...(check.read() === "none" ? {} : {health: {type: check.read()}})}),
		target: () => path`/v1/vips/${id.read()}`,
		done: landed("The VIP is there"),
	});
	if (answer)
		go(`#/vips/${encodeURIComponent(answer.body.id)}`);
}

export async function removeVip(vip, force) {
	const target = path`/v1/vips/${vip}`;
	const now = await look(target);
	if (!now)
		return;
	await change(force ? {
		title: `Cut ${vip}`, intro: `The VIP and its DIPs go at once. ${plural(now.body.flows, "known flow")} ${now.body.flows === 1 ? "is" : "are"} cut.`,
		method: "DELETE", target: () => `${target}?force=true`, watch: target, etag: now.etag, confirm: vip, verb: "Cut it", danger: true,
		done: () => `${vip} is cut`,
	} : {
		title: `Drain ${vip}`,
		intro: `It takes no new flows, and goes when its last flow has ended, or after ${count(now.body.drain_timeout_s)} s.`,
		method: "DELETE", target: () => target, watch: target, etag: now.etag, verb: "Drain it", done: left(vip, "is gone"),
	});
}

export async function createDip(vip) {
	const id = field("id", {label: "Id", placeholder: "b1", hint: "small letters, digits, . _ -"});
	const fields = [
		id,
		field("address", {label: "Address", placeholder: "10.9.0.11"}),
		field("weight", {label: "Weight", kind: "number", value: 1, hint: "0 to 65,535; its share of new flows"}),
		...(vip.mode === "nat" ? [field("port", {label: "Port", kind: "number", hint: "empty: the VIP's"})] : []),
		...(vip.quic === "server-id" ? [field("server_id", {label: "Server id", hint: "of its QUIC connection ids, in hexadecimal"})] : []),
	];
	await change({
		title: `Add a DIP to ${vip.id}`, fields, method: "PUT", createOnly: true, ready: false, verb: "Add",
		body: () => bodyOf(fields), target: () => path`/v1/vips/${vip.id}/dips/${id.read() || "-"}`,
		done: landed("The DIP is there"),
	});
}

export async function setWeight(vip, dip) {
	const target = path`/v1/vips/${vip}/dips/${dip}`;
	const now = await look(target);
	if (!now)
		return;
	const weight = field("weight", {label: "Weight", kind: "number", value: now.body.weight,
		hint: "0 to 65,535; with 0 it takes no new flows and keeps the old ones"});
	await change({
		title: `Weight of ${dip}`, fields: [weight], method: "PATCH", target: () => target, watch: target, etag: now.etag, verb: "Apply",
		body: () => ({weight: weight.read()}), done: landed(`${dip} has another weight`),
	});
}

export async function setAdminState(vip, dip, wanted) {
	const target = path`/v1/vips/${vip}/dips/${dip}`;
	const now = await look(target);
	if (!now)
		return;
	await change({
		title: `Mark ${dip} ${wanted}`, method: "PATCH", target: () => target, watch: target, etag: now.etag,
		intro: wanted === "down" ? "It gets no packet any more: others take its flows over at once, and their connections break."
			: "It gets its old share back, and its flows that are still there.",
		verb: `Mark ${wanted}`, danger: wanted === "down", body: () => ({admin_state: wanted}), done: landed(`${dip} is marked ${wanted}`),
	});
}

export async function drainDip(vip, dip) {
	const target = path`/v1/vips/${vip}/dips/${dip}`;
	const now = await look(target);
	if (!now)
		return;
	await change({
		title: `Drain ${dip}`, method: "DELETE", target: () => target, watch: target, etag: now.etag, verb: "Drain it",
		intro: `It takes no new flows, keeps ${plural(now.body.flows, "known flow")}, and goes when the last one has ended or the VIP's drain time-out is over.`,
		done: left(dip, "is gone"),
	});
}

/** To put what drains ends the drain. */
export async function keepDip(vip, dip) {
	const target = path`/v1/vips/${vip}/dips/${dip}`;
	const now = await look(target);
	if (!now)
		return;
	await change({
		title: `Keep ${dip}`, method: "PUT", target: () => target, watch: target, etag: now.etag, verb: "Keep it",
		intro: "The drain ends, and it takes new flows again.", body: () => now.body, done: landed(`${dip} stays`),
	});
}

export async function cutDip(vip, dip) {
	const target = path`/v1/vips/${vip}/dips/${dip}`;
	const now = await look(target);
	if (!now)
		return;
	await change({
		title: `Cut ${dip}`, method: "DELETE", target: () => `${target}?force=true`, watch: target, etag: now.etag, confirm: dip, verb: "Cut it",
		danger: true, intro: `It goes at once. ${plural(now.body.flows, "known flow")} of it ${now.body.flows === 1 ? "is" : "are"} cut.`,
		done: () => `${dip} is cut`,
	});
}
