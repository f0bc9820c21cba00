// What the page knows: the latest answers, how old they are, and samples of counters for the last fifteen minutes.
// Everything is asked for again every other second, and at once when an event says that something has changed.

import {call, get, query} from "./api.js";
import {follow} from "./events.js";

export const POLL_MS = 2000;
export const STALE_MS = 3 * POLL_MS;
const KEEP_MS = 15 * 60 * 1000;
const GAP_S = 25; // longer than the server's own samples are apart
const DATE_MS = 2000; // what a Date header, in seconds, may be off
const EVENTS_MAX = 500;
const HASTE_MS = 150;
/** Events after which what is shown is another one. */
const STIRRING = new Set(["change", "publish", "health", "drain_done", "resolved", "unresolved", "violation", "restarted"]);

export const known = {
	author: "", role: "read",
	status: null, consistency: null, counters: null, vips: [],
	at: 0, // when the last whole round of answers came
	fault: null, // why the latest one did not
	streaming: false,
	events: [], // the newest first
};

const extra = new Map(); // what the page at hand wants besides: name -> function
const listeners = new Set();
let recalled = new Set();
let skew = 0; // of our clock, against the server's
let series = new Map(); // key -> [[t, values...], ...]
let timer = 0;
let running = false;
let asking = false;
let again = false;
let following = null;

export const mayChange = () => known.role === "operate" || known.role === "admin";
export const isStale = () => !known.at || Date.now() - known.at > STALE_MS;

export function subscribe(f) {
	listeners.add(f);
	return () => listeners.delete(f);
}

function tellAll(kind) {
	for (const f of listeners)
		f(kind);
}

/** Have more asked for in each round, until the function that is returned is called. */
export function want(name, f) {
	extra.set(name, f);
	hasten();
	return () => extra.get(name) === f && extra.delete(name);
}

// --- samples ------------------------------------------------------------------------------------------------------

/** Note figures of a moment under a key. */
export function sample(key, t, values) {
	const list = series.get(key) || [];
	if (list.length && list.at(-1)[0] >= t)
		return;
	list.push([t, ...values]);
	while (list[0][0] < t - KEEP_MS)
		list.shift();
	series.set(key, list);
}

export function samples(key) {
	return series.get(key) || [];
}

/** Points {x, y} of how much the i-th figure grew a second. A counter that fell began anew with its process. */
export function rates(key, i, factor = 1) {
	const out = [];
	const list = samples(key);
	for (let n = 1; n < list.length; n++) {
		const dt = (list[n][0] - list[n - 1][0]) / 1000;
		const d = list[n][i + 1] - list[n - 1][i + 1];
		if (dt > GAP_S && out.length)
			out.push({x: list[n - 1][0] + 1, y: null}); // nothing is known of the time between
		out.push({x: list[n][0], y: d < 0 ? null : d * factor / dt});
	}
	return out;
}

/** The latest rate, over some seconds. */
export function rate(key, i, overMs = 2.5 * POLL_MS) {
	const list = samples(key);
	if (list.length < 2)
		return NaN;
	const last = list.at(-1);
	let first = list.at(-2);
	for (let n = list.length - 3; n >= 0 && last[0] - list[n][0] <= overMs; n--)
		first = list[n];
	const d = last[i + 1] - first[i + 1];
	return d < 0 ? NaN : d * 1000 / (last[0] - first[0]);
}

/** What the server remembers of the time before the page was opened: points under a key, but where there are some. */
async function seed(key, vip) {
	const answer = await get(`/v1/traffic${query({vip})}`);
	const own = samples(key);
	const until = own[0]?.[0] ?? Infinity;
	const old = answer.items.map((p) => [Date.parse(p.time) + skew, p.packets, p.bytes, p.flows, p.flows_pinned]).filter((p) => p[0] < until);
	series.set(key, [...old, ...own]);
}

/** The same for what is shown: all together, and VIPs that are named; each once. */
export function recall(...vips) {
	for (const vip of [null, ...vips]) {
		const key = vip === null ? "all" : `vip ${vip}`;
		if (recalled.has(key))
			continue;
		recalled.add(key);
		seed(key, vip).then(() => tellAll("answers")).catch(() => recalled.delete(key));
	}
}

function note(t) {
	const sum = [0, 0, 0, 0];
	for (const v of known.vips) {
		const packets = v.packets + v.return_packets;
		const octets = v.bytes + v.return_bytes;
		sample(`vip ${v.id}`, t, [packets, octets, v.flows, v.flows_pinned]);
		[packets, octets, v.flows, v.flows_pinned].forEach((n, i) => {
			sum[i] += n;
		});
	}
	sample("all", t, sum);
	const c = known.consistency;
	sample("memory", t, [c.pin_bytes, c.dcode_bytes]);
}

// --- asking ---------------------------------------------------------------------------------------------------------

async function round() {
	const names = ["status", "consistency", "counters"];
	const answers = await Promise.all([...names.map((n) => get(`/v1/${n}`)), get("/v1/vips"),
		...[...extra.values()].map((f) => f())]);
	names.forEach((n, i) => {
		known[n] = answers[i];
	});
	known.vips = answers[names.length].items;
	known.at = Date.now();
	known.fault = null;
	note(known.at);
}

async function tick() {
	clearTimeout(timer);
	if (asking) {
		again = true;
		return;
	}
	asking = true;
	try {
		await round();
	} catch (e) {
		known.fault = e;
	}
	asking = false;
	if (!running)
		return;
	timer = setTimeout(tick, again ? HASTE_MS : POLL_MS);
	again = false;
	tellAll("answers");
}

/** Ask again soon, whatever the clock says. */
export function hasten() {
	if (!running)
		return;
	if (asking) {
		again = true;
		return;
	}
	clearTimeout(timer);
	timer = setTimeout(tick, HASTE_MS);
}

function onEvent(kind, event) {
	known.events.unshift({...event, kind: event.kind || kind});
	known.events.length = Math.min(known.events.length, EVENTS_MAX);
	if (STIRRING.has(kind))
		hasten();
	tellAll("event");
}

export async function begin() {
	const {body: who, date} = await call("/v1/whoami");
	const ahead = Date.now() - Date.parse(date);
	skew = Math.abs(ahead) > DATE_MS ? ahead : 0;
	Object.assign(known, {author: who.author, role: who.role, at: 0, fault: null, events: []});
	series = new Map();
	recalled = new Set();
	running = true;
	await tick();
	following = follow(onEvent, (on) => {
		known.streaming = on;
		tellAll("stream");
	});
}

export function end() {
	running = false;
	clearTimeout(timer);
	following?.stop();
	following = null;
	extra.clear();
	Object.assign(known, {status: null, consistency: null, counters: null, vips: [], events: [], at: 0, role: "read", author: ""});
}
