// What happens now, what was changed, by whom, and the way back.

import {call, get, path, query} from "./api.js";
import {h, keyed, text, uid} from "./dom.js";
import {change} from "./change.js";
import {count, plural, when} from "./format.js";
import {eventList} from "./event_list.js";
import {known, mayChange} from "./state.js";

const PAGE = 50;

const word = (v) => v === undefined ? "–" : typeof v === "object" && v !== null ? JSON.stringify(v) : String(v);

/** The member of a document that a JSON pointer names. */
function at(document, pointer) {
	return pointer.split("/").slice(1).reduce((d, k) => d?.[k.replaceAll("~1", "/").replaceAll("~0", "~")], document);
}

function diffItem(d) {
	const name = h("strong", {class: "mono"}, d.path.replace(/^\/v1\//, ""));
	if (!d.before)
		return h("li", {data: {kind: "good"}}, name, " was added: ", h("span", {class: "mono"}, word(d.after.address)), d.after.weight === undefined ? "" : `, weight ${d.after.weight}`);
	if (!d.after)
		return h("li", {data: {kind: "bad"}}, name, " was removed");
	return h("li", {data: {kind: "warn"}}, name, ": ", d.members.map((m, i) => [i ? ", " : "", h("span", {}, m.slice(1), " ",
		h("del", {}, word(at(d.before, m))), " → ", h("ins", {}, word(at(d.after, m))))]));
}

async function rollBack(version) {
	const watch = "/v1/config";
	const now = await call(watch);
	await change({
		title: `Roll back to version ${version}`, method: "POST", target: () => "/v1/config:rollback", watch, etag: now.etag,
		intro: "The configuration becomes what it was after that version. What was added since drains, and connections stay where they are. It is a version itself, and can be undone.",
		body: () => ({to: version}), verb: "Roll back", done: ({body}) => `Rolled back to version ${version} (generation ${count(body.change.generation)})`,
	});
}

function versionItem(v) {
	const diff = h("ul", {class: "diff", hidden: true});
	const id = uid("diff");
	diff.id = id;
	const open = h("button", {type: "button", class: "small", "aria-expanded": "false", "aria-controls": id, "aria-label": `Diff of version ${v.version}`,
		onclick: toggle}, "Diff");
	const back = h("button", {type: "button", class: "small", "aria-label": `Roll back to version ${v.version}`, onclick: () => rollBack(v.version)}, "Roll back");

	async function toggle() {
		diff.hidden = !diff.hidden;
		open.setAttribute("aria-expanded", String(!diff.hidden));
		if (diff.hidden || diff.childElementCount)
			return;
		try {
			const d = await get(path`/v1/config/versions/${v.version}/diff`);
			diff.replaceChildren(...(d.items.length ? d.items.map(diffItem) : [h("li", {}, "Nothing differs.")]));
		} catch (e) {
			diff.replaceChildren(h("li", {data: {kind: "bad"}}, e.message));
		}
	}
	const e = h("li", {class: "version"}, h("div", {class: "version-head"}, h("span", {class: "badge mono"}, v.version), h("span", {class: "mono action"}, v.action),
		h("span", {class: "dim"}, `${v.author || "unknown"} · ${when(v.time)} · ${plural(v.edits, "resource")}`), h("span", {class: "buttons"}, open, back)), diff);
	e.update = () => {
		back.hidden = !mayChange() || v.version === e.parentElement?.newest;
	};
	return e;
}

/** A list that is read page by page: refresh() reads the first page anew, more() the next. */
function paged(target, list, make, keyOf, extra = () => ({})) {
	let items = [];
	let next = null;
	const fault = h("p", {class: "form-error", role: "alert"});
	const button = h("button", {type: "button", hidden: true, onclick: () => read(next)}, "Older ones");
	const e = h("div", {}, fault, list, h("div", {class: "buttons start"}, button));

	async function read(cursor) {
		try {
			const page = await get(`${target}${query({limit: PAGE, cursor, ...extra()})}`);
			text(fault, "");
			items = cursor ? [...items, ...page.items] : page.items;
			next = page.next ?? null;
			list.newest = items[0]?.version;
			keyed(list, items, keyOf, make);
			for (const node of list.children)
				node.update?.();
			button.hidden = next === null;
		} catch (error) {
			text(fault, error.message);
		}
	}
	e.refresh = () => read(null);
	return e;
}

function versionsPanel() {
	const list = h("ol", {class: "versions"});
	return paged("/v1/config/versions", list, versionItem, (v) => v.version);
}

function auditRow(a) {
	return h("tr", {}, h("td", {class: "num"}, count(a.version)), h("td", {}, when(a.time)), h("td", {}, a.author || "unknown"), h("td", {class: "mono"}, a.action),
		h("td", {class: "num"}, `${count(a.generation_before)} → ${count(a.generation)}`));
}

function auditPanel() {
	const author = h("input", {type: "search", placeholder: "Author", "aria-label": "Only changes of this author", oninput: () => later()});
	const below = h("input", {type: "search", placeholder: "/v1/vips/web", "aria-label": "Only changes of this resource", oninput: () => later()});
	const body = h("tbody");
	const table = paged("/v1/audit-log", body, auditRow, (a) => a.version, () => ({author: author.value.trim(), path: below.value.trim()}));
	let timer = 0;
	const later = () => {
		clearTimeout(timer);
		timer = setTimeout(table.refresh, 250);
	};
	body.remove();
	const scroll = h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Audit log"}, h("table", {class: "list"},
		h("thead", {}, h("tr", {}, ["Version", "Time", "Author", "Action", "Generation"].map((n) => h("th", {scope: "col"}, n)))), body));
	table.insertBefore(scroll, table.lastChild);
	const e = h("div", {}, h("div", {class: "filters"}, author, below), table);
	e.refresh = table.refresh;
	return e;
}

function eventsPanel() {
	const kinds = h("select", {"aria-label": "Kind of events", onchange: () => list.refresh()}, ["all", "change", "publish", "health", "drain_done", "warning", "violation"]
		.map((k) => h("option", {value: k}, k)));
	const list = eventList((e) => kinds.value === "all" || e.kind === kinds.value, 200);
	const e = h("div", {}, h("div", {class: "filters"}, kinds), list);
	e.refresh = list.refresh;
	return e;
}

/** Tabs as the ARIA practices want them: arrows move, one is in the order of tabs. */
function tabs(parts) {
	const panels = parts.map(([, panel]) => h("div", {role: "tabpanel", id: uid("panel"), tabindex: "0", class: "card"}, panel));
	const heads = parts.map(([name], i) => h("button", {type: "button", role: "tab", id: uid("tab"), "aria-controls": panels[i].id, onclick: () => choose(i)}, name));
	const strip = h("div", {role: "tablist", class: "tabs", "aria-label": "Changes", onkeydown: (event) => {
		const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
		if (step) {
			choose((chosen + step + heads.length) % heads.length);
			heads[chosen].focus();
		}
	}}, heads);
	let chosen = 0;

	function choose(n) {
		chosen = n;
		heads.forEach((t, i) => {
			t.setAttribute("aria-selected", String(i === n));
			t.tabIndex = i === n ? 0 : -1;
			panels[i].hidden = i !== n;
			panels[i].setAttribute("aria-labelledby", t.id);
		});
		parts[n][1].refresh();
	}
	const e = h("div", {class: "stack"}, strip, panels);
	e.refresh = () => parts[chosen][1].refresh();
	choose(0);
	return e;
}

export function changesPage(main) {
	const events = eventsPanel();
	const versions = versionsPanel();
	const audit = auditPanel();
	const all = tabs([["Events", events], ["Versions", versions], ["Audit log", audit]]);
	let generation = known.consistency?.generation;

	main.append(h("h1", {}, "Changes"), all);
	return {
		update() {
			if (events.offsetParent)
				events.refresh();
			// The lists are read anew when something was published, not with every answer.
			if (known.consistency?.generation === generation)
				return;
			generation = known.consistency?.generation;
			if (!events.offsetParent)
				all.refresh();
		},
	};
}
