// One VIP: its DIPs, what they should get and what they get.

import {call, path} from "./api.js";
import {card, h, keyed, state, text, tile} from "./dom.js";
import {bps, bytes, count, endpoint, percent, pps, seconds, when} from "./format.js";
import {barChart, forget, timeChart} from "./charts.js";
import {known, mayChange, rate, rates, recall, sample, want} from "./state.js";
import {createDip, removeVip} from "./vip_changes.js";
import {dipTable} from "./dip_table.js";
import {eventList} from "./event_list.js";
import {FIGURES, keyOf, Shares} from "./shares.js";

const BARS_MAX = 32;
const LINES_MAX = 7;

function settings(v) {
	const idle = v.idle_timeout_s;
	const pairs = [
		["Mode", v.mode], ["Affinity", v.affinity], ["Health checks", v.health ? `${v.health.type}, every ${v.health.interval_ms} ms` : "none"],
		["Drain time-out", seconds(v.drain_timeout_s)], ["Ended flows held", seconds(v.closing_pin_s)],
		["Idle: established", seconds(idle.established)], ["Idle: half open", seconds(idle.half_open)],
		["Idle: closing", seconds(idle.closing)], ["Idle: UDP", seconds(idle.udp)],
		["If learning overflows", v.on_learn_overflow], ["Fragments", v.fragments], ["QUIC", v.quic],
	];
	return pairs.map(([k, w]) => h("div", {}, h("dt", {}, k), h("dd", {}, w)));
}

function head(id) {
	const where = h("span", {class: "mono dim"});
	const mark = h("span");
	const note = h("p", {class: "drain-note", hidden: true});
	const buttons = h("div", {class: "buttons"},
		h("button", {type: "button", onclick: () => removeVip(id, false)}, "Drain VIP"),
		h("button", {type: "button", class: "danger", onclick: () => removeVip(id, true)}, "Cut VIP"));
	const e = h("div", {class: "page-head"}, h("div", {}, h("h1", {}, id, " ", mark), where, note), buttons);
	e.refresh = (v) => {
		text(where, endpoint(v));
		if (mark.dataset.state !== v.state) {
			mark.dataset.state = v.state;
			mark.replaceChildren(state(v.state));
		}
		note.hidden = !v.drain;
		if (v.drain)
			text(note, `${count(v.drain.flows_remaining)} flows to go, the oldest for ${seconds(v.drain.oldest_age_s)}; cut ${when(v.drain.deadline)}`);
		buttons.hidden = !mayChange();
	};
	return e;
}

/** What the page knows of the VIP: asked for with every round. */
function follow(id, page) {
	return want("vip", async () => {
		try {
			const list = await call(path`/v1/vips/${id}/dips`);
			const t = Date.now();
			page.dips = list.body.items;
			page.gone = false;
			for (const d of page.dips)
				sample(keyOf(id, d.id), t, [d.packets + d.return_packets, d.bytes + d.return_bytes, d.flows_opened]);
			page.shares.see(page.dips, t);
		} catch (e) {
			if (e.status !== 404)
				throw e;
			page.gone = true;
		}
	});
}

function sharePlot(plot, note, page) {
	const shown = page.dips.slice(0, BARS_MAX);
	const expected = page.shares.expected();
	const opened = page.shares.measured(FIGURES.opened);
	const packets = page.shares.measured(FIGURES.packets);
	const of = (map) => shown.map((d) => Number.isFinite(map.get(d.id)) ? 100 * map.get(d.id) : 0);
	plot.set(shown.map((d) => d.id), [
		{label: "expected", values: of(expected), color: 0},
		{label: "new flows", values: of(opened.shares), color: 1},
		{label: "packets", values: of(packets.shares), color: 2},
	]);
	text(note, opened.sum || packets.sum
		? `Measured over ${seconds(opened.seconds)}: ${count(opened.sum)} new flows, ${count(packets.sum)} packets`
		: "No traffic since the shares last changed");
	plot.say(shown.map((d) => `${d.id}: expected ${percent(expected.get(d.id))}, new flows ${percent(opened.shares.get(d.id))}`).join("; "));
	return {expected, opened: opened.shares, packets: packets.shares};
}

export function vipPage(main, {id}) {
	const page = {dips: null, gone: false, shares: new Shares(id)};
	const top = head(id);
	const tiles = {
		pps: tile("Packets a second"), bps: tile("Bits a second"), flows: tile("Flows known"), pinned: tile("Flows pinned"), dcodes: tile("Dcodes"),
	};
	const missing = h("p", {class: "empty", hidden: true}, `There is no VIP ${id} (any more).`);
	const shareNote = h("p", {class: "dim"});
	const shares = barChart("Share of each DIP: expected, of new flows, of packets", (v) => `${Math.round(v)} %`, {max: 100, height: "medium"});
	const traffic = timeChart("Packets a second to each DIP over the last 15 minutes", pps);
	const table = dipTable(id, page);
	const facts = h("div", {class: "pairs"});
	const happened = eventList((e) => e.vip === id, 12);
	const add = h("button", {type: "button", class: "primary", onclick: () => createDip(known.vips.find((v) => v.id === id) || {id})}, "Add a DIP");
	const all = h("div", {class: "stack"}, top, h("dl", {class: "tiles"}, Object.values(tiles)),
		h("section", {class: "card", "aria-label": "DIPs"}, h("div", {class: "card-head"}, h("h2", {}, "DIPs"), add), table),
		h("div", {class: "pair"}, card("Share of each DIP", shares, shareNote), card("Packets a second, last 15 minutes", traffic)),
		h("div", {class: "pair"}, card("Settings", facts), card("Latest events", happened)));
	const unfollow = follow(id, page);

	main.append(h("p", {class: "crumb"}, h("a", {href: "#/"}, "Overview"), " / ", id), missing, all);
	return {
		update() {
			const v = known.vips.find((x) => x.id === id);
			missing.hidden = Boolean(v) || !known.at;
			all.hidden = !v;
			if (!v)
				return;
			recall(id);
			top.refresh(v);
			add.hidden = !mayChange();
			tiles.pps.set(pps(rate(`vip ${id}`, 0)), `${count(v.packets + v.return_packets)} since the start`);
			tiles.bps.set(bps(8 * rate(`vip ${id}`, 1)), `${bytes(v.bytes + v.return_bytes)} since the start`);
			tiles.flows.set(count(v.flows), `${percent(v.flows / known.consistency.flows_known)} of all VIPs'`);
			tiles.pinned.set(count(v.flows_pinned), v.flows ? `${percent(v.flows_pinned / v.flows)} of the known` : "none is known");
			tiles.dcodes.set(count(v.dcodes), "that new flows are spread over");
			keyed(facts, [v], (x) => JSON.stringify([x.mode, x.health, x.idle_timeout_s, x.drain_timeout_s, x.closing_pin_s, x.on_learn_overflow, x.fragments, x.quic]),
				(x) => h("dl", {class: "pairs-in"}, settings(x)));
			happened.refresh();
			if (!page.dips)
				return;
			table.refresh(sharePlot(shares, shareNote, page));
			traffic.set([{label: "all", points: rates(`vip ${id}`, 0), color: 7, sum: true},
				...page.dips.slice(0, LINES_MAX).map((d, i) => ({label: d.id, points: rates(keyOf(id, d.id), FIGURES.packets), color: i}))]);
		},
		end() {
			unfollow();
			forget(shares);
			forget(traffic);
		},
	};
}
