// Events as a list of sentences, the newest first.

import {h, keyed, text} from "./dom.js";
import {clock} from "./format.js";
import {known} from "./state.js";

let numbers = new WeakMap();
let next = 0;

function keyOf(event) {
	if (!numbers.has(event))
		numbers.set(event, ++next);
	return numbers.get(event);
}

function item(event) {
	const times = h("span", {class: "times"}, event.count > 1 ? `×${event.count}` : "");
	return h("li", {data: {kind: event.kind}}, h("time", {datetime: event.time || ""}, event.time ? clock(event.time) : ""),
		h("span", {class: "kind", data: {kind: event.kind}}, event.kind), h("span", {class: "words"}, event.text || `${event.lost ?? ""} events were missed`, times));
}

/** Those that fit, at most so many. */
export function eventList(fits, max) {
	const list = h("ol", {class: "events"});
	const none = h("p", {class: "dim"}, "Nothing has happened yet.");
	const e = h("div", {}, list, none);
	e.refresh = () => {
		const shown = known.events.filter(fits).slice(0, max);
		keyed(list, shown, keyOf, item);
		none.hidden = shown.length > 0;
		text(none, "Nothing has happened yet.");
	};
	return e;
}
