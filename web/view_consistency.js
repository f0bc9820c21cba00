// How the promise is kept: every counter with a sentence, how long builds and pauses took, and an audit on demand.

import {call, getText} from "./api.js";
import {card, h, keyed, text} from "./dom.js";
import {bytes, clock, count, micros, plural} from "./format.js";
import {barChart, forget, timeChart} from "./charts.js";
import {known, mayChange, recall, samples} from "./state.js";

const GROUPS = [
	["The promise", ["violations_total", "flows_lost_total", "flows_rehomed_total", "orphans_total", "audits_total"]],
	["Flows now", ["flows_known", "flows_established", "flows_half_open", "flows_closing", "flows_unproven", "flows_pinned", "flows_exact"]],
	["Learning", ["flows_opened_total", "flows_opened_on_pin_total", "flows_late_total", "flows_unlearned_total", "flows_forgotten_total",
		"accidents_pinned_total"]],
	["Publishing", ["generation", "publishes_total", "last_build_us", "last_pause_us", "max_pause_us", "pin_bytes", "dcode_bytes"]],
	["Agents", ["agents_reports_total", "agents_refused_total"]],
];
/** What should be 0, and how bad it is if it is not. */
const GRAVE = {violations_total: "bad", flows_unlearned_total: "warn", flows_forgotten_total: "warn", orphans_total: "warn"};

let sentences = null;

/** The sentence of each counter: that of its metric, the one place where it is written. */
async function readSentences() {
	const found = new Map();
	for (const line of (await getText("/metrics")).split("\n")) {
		const m = /^# HELP concury_consistency_(\S+) (.*)$/.exec(line);
		if (m)
			found.set(m[1], `${m[2][0].toUpperCase()}${m[2].slice(1)}.`);
	}
	sentences = found;
}

function valueOf(name, v) {
	return name.endsWith("_us") ? micros(v) : name.endsWith("_bytes") ? bytes(v) : count(v);
}

function row(name) {
	const value = h("td", {class: "num"});
	const words = h("td");
	const e = h("tr", {}, h("th", {scope: "row", class: "mono"}, name), value, words);
	e.update = () => {
		const v = known.consistency[name];
		text(value, valueOf(name, v));
		value.dataset.kind = name in GRAVE ? (v ? GRAVE[name] : "good") : "";
		text(words, sentences?.get(name) || "");
	};
	return e;
}

/** All counters, those of no group in one of their own: none is left out when one is added. */
function groups() {
	const all = Object.keys(known.consistency).filter((k) => typeof known.consistency[k] === "number");
	const named = new Set(GROUPS.flatMap(([, names]) => names));
	const rest = all.filter((k) => !named.has(k));
	return [...GROUPS.map(([title, names]) => [title, names.filter((n) => all.includes(n))]), ...(rest.length ? [["Others", rest]] : [])];
}

function counterTable([title]) {
	const body = h("tbody");
	const e = card(title, h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": title}, h("table", {class: "list counters"},
		h("thead", {class: "unseen"}, h("tr", {}, ["Counter", "Value", "Meaning"].map((n) => h("th", {scope: "col"}, n)))), body)));
	e.update = ([, names]) => keyed(body, names, (n) => n, row);
	return e;
}

/** How many were in each power of two, between the first and the last that have any. */
function bucketsOf(histogram) {
	let before = 0;
	const counts = histogram.buckets.map((b) => {
		const n = b.count - before;
		before = b.count;
		return [b.le, n];
	});
	const first = counts.findIndex(([, n]) => n);
	const last = counts.findLastIndex(([, n]) => n);
	return first < 0 ? [] : counts.slice(Math.max(0, first - 1), last + 2);
}

function histogramCard(title, member, color) {
	const chart = barChart(`${title}: how many publishes took up to so long`, count, {integer: true, height: "short", axis: "at most"});
	const note = h("p", {class: "dim"});
	const e = card(title, chart, note);
	e.refresh = () => {
		const all = known.consistency[member];
		const list = bucketsOf(all);
		chart.set(list.map(([le]) => micros(le)), [{label: "publishes", values: list.map(([, n]) => n), color}]);
		text(note, all.count ? `${plural(all.count, "publish", "publishes")} since the start, ${micros(Math.round(all.sum / all.count))} on average` : "Nothing was published yet");
	};
	e.end = () => forget(chart);
	return e;
}

function auditCard() {
	const answer = h("p", {class: "audit-answer", role: "status"}, "Asks for every known flow where its next packet would go. Forwarding goes on meanwhile.");
	const button = h("button", {type: "button", class: "primary", onclick: run}, "Audit now");
	const e = card("Audit", answer, h("div", {class: "buttons start"}, button));

	async function run() {
		button.disabled = true;
		try {
			const a = (await call("/v1/audit", {method: "POST"})).body;
			answer.dataset.kind = a.flows_misplaced ? "bad" : "good";
			text(answer, `${clock(Date.now())}: ${plural(a.flows_checked, "flow")} checked in ${micros(a.duration_us)}, ${count(a.flows_misplaced)} misplaced` +
				`${a.flows_of_down_dips ? `, ${count(a.flows_of_down_dips)} of DIPs that are down` : ""} (generation ${count(a.generation)})`);
		} catch (error) {
			answer.dataset.kind = "bad";
			text(answer, error.message);
		}
		button.disabled = false;
	}
	e.refresh = () => {
		button.hidden = !mayChange();
	};
	return e;
}

const points = (key, i) => samples(key).map((s) => ({x: s[0], y: s[i + 1]}));

export function consistencyPage(main) {
	const audit = auditCard();
	const pause = histogramCard("Pauses of the workers", "publish_pause_us", 0);
	const build = histogramCard("Builds", "publish_build_us", 1);
	const flows = timeChart("Flows known and pinned over the last 15 minutes", count, "short");
	const memory = timeChart("Bytes of pins and Dcodes over the last 15 minutes", bytes, "short");
	const tables = h("div", {class: "stack tables"});

	main.append(h("h1", {}, "Consistency"),
		h("p", {class: "lead"}, "No connection moves to another DIP but where its own is cut or down. This is what is counted to know that."),
		h("div", {class: "pair"}, audit, card("Flows, last 15 minutes", flows)),
		h("div", {class: "pair"}, pause, build), card("Memory of pins and Dcodes, last 15 minutes", memory), tables);
	// The tables come with their sentences, since rows would jump if these came later; without, if there is no way.
	let ready = Boolean(sentences);
	const show = () => ready && known.at && keyed(tables, groups(), ([title]) => title, counterTable);
	if (!ready)
		readSentences().catch(() => {}).finally(() => {
			ready = true;
			show();
		});
	return {
		update() {
			if (!known.at)
				return;
			show();
			recall();
			audit.refresh();
			pause.refresh();
			build.refresh();
			flows.set([{label: "known", points: points("all", 2), color: 0}, {label: "pinned", points: points("all", 3), color: 1}]);
			memory.set([{label: "pins", points: points("memory", 0), color: 1}, {label: "Dcodes", points: points("memory", 1), color: 2}]);
		},
		end() {
			pause.end();
			build.end();
			forget(flows);
			forget(memory);
		},
	};
}
