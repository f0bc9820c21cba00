// All VIPs, and in two seconds whether anything is wrong.

import {card, h, keyed, state, text, tile} from "./dom.js";
import {bps, count, endpoint, micros, percent, plural, pps, seconds, short} from "./format.js";
import {forget, timeChart} from "./charts.js";
import {known, mayChange, rate, rates, recall} from "./state.js";
import {createVip} from "./vip_changes.js";

const LINES_MAX = 7;
const ROWS_MAX = 200;
const FULL = 0.8; // of the flow table

/** What is wrong, the worst first: {kind, words, href}. */
export function findings() {
	const {status, consistency: c, vips} = known;
	const list = [];
	const bad = (words, href) => list.push({kind: "bad", words, href});
	const warn = (words, href) => list.push({kind: "warn", words, href});

	if (c.violations_total)
		bad(`${plural(c.violations_total, "violation")} of the promise: packets went to another DIP than their flow's`, "#/consistency");
	if (!status.ready)
		bad("concuryd is not ready to forward");
	for (const v of vips) {
		const all = v.dips_up + v.dips_down + v.dips_draining + v.dips_unresolved;
		if (all && !v.dips_up && v.state === "up")
			bad(`${v.id}: none of ${plural(all, "DIP")} is up`, `#/vips/${v.id}`);
		else if (v.dips_down || v.dips_unresolved)
			warn(`${v.id}: ${[v.dips_down ? `${v.dips_down} down` : "", v.dips_unresolved ? `${v.dips_unresolved} unresolved` : ""]
				.filter(Boolean).join(", ")} of ${plural(all, "DIP")}`, `#/vips/${v.id}`);
	}
	for (const w of status.warnings)
		warn(w);
	if (status.flows.known > FULL * status.flows.capacity)
		warn(`the flow table is ${percent(status.flows.known / status.flows.capacity)} full`);
	return list.sort((a, b) => (a.kind === "bad" ? 0 : 1) - (b.kind === "bad" ? 0 : 1));
}

function verdict() {
	const title = h("strong", {class: "verdict-title"});
	const promise = h("p", {class: "promise"});
	const list = h("ul", {class: "findings"});
	const e = h("section", {class: "verdict", "aria-label": "Is anything wrong?"}, h("div", {class: "verdict-head"}, title, promise), list);
	e.refresh = () => {
		const c = known.consistency;
		const found = findings();
		e.dataset.kind = found[0]?.kind || "good";
		text(title, found.length ? `${plural(found.length, "finding")}` : "All is well");
		text(promise, `violations ${count(c.violations_total)} · flows moved ${count(c.flows_rehomed_total)} · ` +
			`last publish pause ${micros(c.last_pause_us)}`);
		keyed(list, found.slice(0, 12), (f) => f.words, (f) => h("li", {data: {kind: f.kind}},
			f.href ? h("a", {href: f.href}, f.words) : f.words));
	};
	return e;
}

const COLUMNS = [
	["VIP", "id", false], ["Address", "endpoint", false], ["Packets", "pps", true], ["Bits", "bps", true],
	["Flows", "flows", true], ["Pinned", "pinned", true], ["DIPs", "dips", false],
];

function row(v) {
	const cells = {
		endpoint: h("td", {class: "mono"}), pps: h("td", {class: "num"}), bps: h("td", {class: "num"}), flows: h("td", {class: "num"}),
		pinned: h("td", {class: "num"}),
	};
	const mark = state(v.state);
	const dips = ["up", "draining", "down", "unresolved"].map((s) => h("span", {class: "count", data: {state: s}}));
	const e = h("tr", {}, h("th", {scope: "row"}, h("a", {href: `#/vips/${encodeURIComponent(v.id)}`}, v.id), " ", mark),
		Object.values(cells), h("td", {class: "counts"}, dips));
	e.update = (now) => {
		mark.hidden = now.state === "up";
		text(cells.endpoint, endpoint(now));
		text(cells.pps, pps(rate(`vip ${now.id}`, 0)));
		text(cells.bps, bps(8 * rate(`vip ${now.id}`, 1)));
		text(cells.flows, count(now.flows));
		text(cells.pinned, count(now.flows_pinned));
		for (const d of dips) {
			const n = now[`dips_${d.dataset.state}`];
			text(d, `${n} ${d.dataset.state}`);
			d.hidden = !n && d.dataset.state !== "up";
		}
	};
	return e;
}

const sorters = {
	id: (a, b) => a.id < b.id ? -1 : 1,
	endpoint: (a, b) => endpoint(a) < endpoint(b) ? -1 : 1,
	pps: (a, b) => (rate(`vip ${b.id}`, 0) || 0) - (rate(`vip ${a.id}`, 0) || 0),
	bps: (a, b) => (rate(`vip ${b.id}`, 1) || 0) - (rate(`vip ${a.id}`, 1) || 0),
	flows: (a, b) => b.flows - a.flows,
	pinned: (a, b) => b.flows_pinned - a.flows_pinned,
	dips: (a, b) => b.dips_down + b.dips_unresolved - a.dips_down - a.dips_unresolved,
};

function table() {
	let by = "id";
	const body = h("tbody");
	const search = h("input", {type: "search", placeholder: "Filter", "aria-label": "Filter VIPs by id or address", oninput: () => e.refresh()});
	const heads = COLUMNS.map(([name, key, num]) => h("th", {scope: "col", class: num ? "num" : "", "aria-sort": key === by ? "ascending" : "none"},
		h("button", {type: "button", class: "sort", onclick: () => sortBy(key)}, name)));
	const more = h("p", {class: "dim"});
	const add = h("button", {type: "button", class: "primary", onclick: () => createVip()}, "Add a VIP");
	const e = h("section", {class: "card", "aria-label": "VIPs"},
		h("div", {class: "card-head"}, h("h2", {}, "VIPs"), search, add),
		h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of VIPs"}, h("table", {class: "list"}, h("thead", {}, h("tr", {}, heads)), body)), more);

	function sortBy(key) {
		by = key;
		heads.forEach((c, i) => c.setAttribute("aria-sort", COLUMNS[i][1] === key ? (COLUMNS[i][2] ? "descending" : "ascending") : "none"));
		e.refresh();
	}
	e.refresh = () => {
		const wanted = search.value.trim().toLowerCase();
		const all = known.vips.filter((v) => !wanted || v.id.includes(wanted) || endpoint(v).includes(wanted)).sort(sorters[by]);
		keyed(body, all.slice(0, ROWS_MAX), (v) => v.id, row);
		add.hidden = !mayChange();
		text(more, all.length > ROWS_MAX ? `${count(all.length - ROWS_MAX)} more: filter to see them`
			: all.length ? "" : known.vips.length ? "None fits the filter." : "There is no VIP yet.");
	};
	return e;
}

/** One line for each of the VIPs with the most traffic. */
function lines(i, factor) {
	const busiest = [...known.vips].sort(sorters.bps).slice(0, LINES_MAX).sort(sorters.id);
	recall(...busiest.map((v) => v.id));
	const list = busiest.map((v, n) => ({label: v.id, points: rates(`vip ${v.id}`, i, factor), color: n + 1}));
	return known.vips.length === 1 ? list : [{label: "all", points: rates("all", i, factor), color: 0, sum: true}, ...list];
}

export function overview(main) {
	const judge = verdict();
	const tiles = {
		pps: tile("Packets a second"), bps: tile("Bits a second"), flows: tile("Flows known"), pinned: tile("Flows pinned"),
		dips: tile("DIPs up"), generation: tile("Generation"),
	};
	const packets = timeChart("Packets a second of each VIP over the last 15 minutes", pps);
	const bits = timeChart("Bits a second of each VIP over the last 15 minutes", bps);
	const vips = table();

	main.append(h("h1", {class: "unseen"}, "Overview"), judge, h("dl", {class: "tiles"}, Object.values(tiles)),
		h("div", {class: "pair"}, card("Packets a second, last 15 minutes", packets), card("Bits a second, last 15 minutes", bits)), vips);
	return {
		update() {
			if (!known.at)
				return;
			const c = known.consistency;
			const sum = (k) => known.vips.reduce((n, v) => n + v[k], 0);
			const total = sum("dips_up") + sum("dips_down") + sum("dips_draining") + sum("dips_unresolved");
			judge.refresh();
			tiles.pps.set(pps(rate("all", 0)), `${plural(known.vips.length, "VIP")}`);
			tiles.bps.set(bps(8 * rate("all", 1)), "to the DIPs and back");
			tiles.flows.set(count(c.flows_known), `of ${short(known.status.flows.capacity)} that fit`);
			tiles.pinned.set(count(c.flows_pinned), c.flows_known ? `${percent(c.flows_pinned / c.flows_known)} of those known` : "none is known");
			tiles.dips.set(`${count(sum("dips_up"))} / ${count(total)}`,
				`${sum("dips_draining")} draining, ${sum("dips_down") + sum("dips_unresolved")} down`, sum("dips_down") + sum("dips_unresolved") ? "warn" : "");
			tiles.generation.set(count(c.generation), `up for ${seconds(known.status.uptime_s)}`);
			packets.set(lines(0, 1));
			bits.set(lines(1, 8));
			packets.say(`Now ${pps(rate("all", 0))}`);
			bits.say(`Now ${bps(8 * rate("all", 1))}`);
			vips.refresh();
		},
		end() {
			forget(packets);
			forget(bits);
		},
	};
}
