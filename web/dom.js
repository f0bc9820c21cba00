// Elements without markup in strings: the page's policy allows none, and nothing that the API says can become one.

/** h("p", {class: "x", onclick: f}, child, ...): an element. Members that are null or false are left out; functions
 *  are listeners, `data` is an object of data attributes; children are nodes, texts, lists of these, or null. */
export function h(name, members, ...children) {
	const e = document.createElement(name);
	for (const [key, value] of Object.entries(members || {})) {
		if (value === null || value === undefined || value === false)
			continue;
		if (typeof value === "function")
			e.addEventListener(key.slice(2), value);
		else if (key === "data")
			Object.assign(e.dataset, value);
		else if (key === "value")
			e.value = value;
		else
			e.setAttribute(key, value === true ? "" : value);
	}
	e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
	return e;
}

/** Change the text only if it is another one: what a screen reader follows, or a user has marked, stays. */
export function text(e, value) {
	const wanted = String(value);
	if (e.textContent !== wanted)
		e.textContent = wanted;
	return e;
}

/** Keep the children of `parent` in step with `items`: one node for each key, made once by make(item), brought up to
 *  date by node.update(item), moved only where the order has changed. */
export function keyed(parent, items, keyOf, make) {
	const old = parent.keyedNodes || new Map();
	const now = new Map();
	let at = parent.firstChild;
	for (const item of items) {
		const key = keyOf(item);
		const node = old.get(key) || make(item);
		node.update?.(item);
		now.set(key, node);
		if (node === at)
			at = at.nextSibling;
		else
			parent.insertBefore(node, at);
	}
	for (const [key, node] of old)
		if (!now.has(key))
			node.remove();
	parent.keyedNodes = now;
}

/** A card with a heading. */
export function card(title, ...children) {
	const id = uid("card");
	return h("section", {class: "card", "aria-labelledby": id},
		h("h2", {id}, title), ...children);
}

let count = 0;
export function uid(prefix) {
	return `${prefix}-${++count}`;
}

/** A figure with its name: tile.set(value, note). */
export function tile(name, note = "") {
	const value = h("dd", {class: "tile-value"}, "–");
	const below = h("dd", {class: "tile-note"}, note);
	const e = h("div", {class: "tile"}, h("dt", {}, name), value, below);
	e.set = (v, n, kind) => {
		text(value, v);
		if (n !== undefined)
			text(below, n);
		e.dataset.kind = kind || "";
	};
	return e;
}

export function state(word) {
	return h("span", {class: "state", data: {state: word}}, word);
}
