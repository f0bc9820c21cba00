// The table of a VIP's DIPs, with what can be done to each.

import {get, path} from "./api.js";
import {h, keyed, state, text} from "./dom.js";
import {count, micros, percent, seconds, when} from "./format.js";
import {mayChange} from "./state.js";
import {cutDip, drainDip, keepDip, setAdminState, setWeight} from "./vip_changes.js";

const HISTORIES_MAX = 64; // DIPs whose transitions are asked for
const MARKS_MAX = 8;

const HEADS = [["DIP", ""], ["State", ""], ["Weight", "num"], ["Expected", "num"], ["New flows", "num"], ["Packets", "num"], ["Flows", "num"],
	["Dcodes", "num"], ["Health", ""], ["", "actions"]];

function healthWords(health) {
	if (health.override)
		return `${health.override.state} by hand: ${health.override.reason}`;
	if (health.state === "unchecked")
		return "not checked";
	const parts = [health.state];
	if (health.ignored)
		parts.push("not heeded");
	if (health.damped)
		parts.push("damped");
	if (health.latency_us !== null)
		parts.push(micros(health.latency_us));
	return parts.join(", ");
}

/** Transitions, the latest last, as marks with words. */
function marks(history) {
	const list = history.slice(0, MARKS_MAX).reverse();
	return list.map((t) => h("li", {data: {state: t.state}, title: `${when(t.at)}: ${t.state}${t.cause ? ` (${t.cause})` : ""}`},
		h("span", {class: "unseen"}, `${when(t.at)}: ${t.state}${t.cause ? `, ${t.cause}` : ""}`)));
}

function drainCell() {
	const bar = h("progress", {max: 1, value: 0, "aria-label": "Flows that have ended"});
	const words = h("span", {class: "dim"});
	const e = h("div", {class: "drain", hidden: true}, bar, words);
	let most = 0;
	e.show = (drain) => {
		e.hidden = !drain;
		if (!drain) {
			most = 0;
			return;
		}
		most = Math.max(most, drain.flows_remaining);
		bar.value = most ? 1 - drain.flows_remaining / most : 1;
		text(words, `${count(drain.flows_remaining)} to go, cut in ${seconds((new Date(drain.deadline) - Date.now()) / 1000)}`);
	};
	return e;
}

function actions(vip, dip, page) {
	const find = () => page.dips.find((d) => d.id === dip);
	const button = (label, f, more = {}) => h("button", {type: "button", class: "small", "aria-label": `${label} ${dip}`, onclick: f, ...more}, label);
	const mark = button("Mark down", () => setAdminState(vip, dip, find()?.admin_state === "down" ? "up" : "down"));
	const drain = button("Drain", () => drainDip(vip, dip));
	const keep = button("Keep", () => keepDip(vip, dip));
	const cut = button("Cut", () => cutDip(vip, dip), {class: "small danger"});
	const e = h("td", {class: "actions"}, mark, drain, keep, cut);
	e.refresh = (d) => {
		const draining = d.state === "draining";
		const word = d.admin_state === "down" ? "Mark up" : "Mark down";
		text(mark, word);
		mark.setAttribute("aria-label", `${word} ${dip}`);
		mark.hidden = draining;
		drain.hidden = draining;
		keep.hidden = !draining;
	};
	return e;
}

function row(vip, first, page) {
	const num = () => h("td", {class: "num"});
	const shown = h("span");
	const drain = drainCell();
	const weight = h("span");
	const edit = h("button", {type: "button", class: "small", "aria-label": `Edit the weight of ${first.id}`, onclick: () => setWeight(vip, first.id)}, "Edit");
	const cells = {expected: num(), opened: num(), packets: num(), flows: num(), dcodes: num()};
	const health = h("span");
	const since = h("span", {class: "dim"});
	const fault = h("span", {class: "fault"});
	const history = h("ul", {class: "marks", "aria-label": `Transitions of ${first.id}`});
	const act = actions(vip, first.id, page);
	const e = h("tr", {}, h("th", {scope: "row"}, h("span", {}, first.id), h("span", {class: "mono dim below"}, first.address)),
		h("td", {class: "state-cell"}, shown, drain), h("td", {class: "num weight"}, weight, edit), Object.values(cells),
		h("td", {class: "health"}, health, history, since, fault), act);
	e.update = (d) => {
		if (shown.dataset.state !== d.state) {
			shown.dataset.state = d.state;
			shown.replaceChildren(state(d.state));
		}
		drain.show(d.drain);
		text(weight, d.weight === d.effective_weight || d.state !== "up" ? d.weight : `${d.effective_weight} of ${d.weight}`);
		text(cells.flows, count(d.flows));
		text(cells.dcodes, count(d.dcodes));
		text(health, healthWords(d.health));
		text(since, d.health.since && d.health.state !== "unchecked" ? `since ${when(d.health.since)}` : "");
		text(fault, d.health.state === "down" && d.health.last_error || "");
		act.refresh(d);
		act.hidden = !mayChange();
		edit.hidden = !mayChange() || d.state === "draining"; // it takes no new flows, whatever it weighs
		const list = page.histories?.get(d.id);
		if (list && list !== e.list)
			history.replaceChildren(...marks(list));
		e.list = list;
		const s = page.measured;
		if (s)
			for (const k of ["expected", "opened", "packets"])
				text(cells[k], percent(s[k].get(d.id)));
	};
	return e;
}

/** Transitions of those DIPs whose health has changed since they were last asked for. */
async function askHistories(vip, page, asked) {
	page.histories ||= new Map();
	for (const d of page.dips.slice(0, HISTORIES_MAX)) {
		const mark = `${d.health.state} ${d.health.since} ${d.state}`;
		if (asked.get(d.id) === mark || d.health.state === "unchecked")
			continue;
		asked.set(d.id, mark);
		try {
			page.histories.set(d.id, (await get(path`/v1/vips/${vip}/dips/${d.id}/health`)).history);
		} catch {
			asked.delete(d.id); // it has gone, or is asked for again with the next round
		}
	}
}

export function dipTable(vip, page) {
	const body = h("tbody");
	const heads = HEADS.map(([name, kind]) => name ? h("th", {scope: "col", class: kind}, name)
		: h("td", {class: kind}, h("span", {class: "unseen"}, "Actions")));
	const none = h("p", {class: "dim", hidden: true}, "There is no DIP yet: its packets are dropped as no_dip.");
	const asked = new Map();
	let asking = false;
	const e = h("div", {}, h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of DIPs"},
		h("table", {class: "list dips"}, h("thead", {}, h("tr", {}, heads)), body)), none);
	e.refresh = (measured) => {
		page.measured = measured;
		heads.at(-1).hidden = !mayChange();
		none.hidden = page.dips.length > 0;
		keyed(body, page.dips, (d) => d.id, (d) => row(vip, d, page));
		if (!asking) {
			asking = true;
			askHistories(vip, page, asked).finally(() => {
				asking = false;
			});
		}
	};
	return e;
}
