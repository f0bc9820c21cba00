// The token is asked for, and kept in memory only: it is gone with the page.

import {ApiError} from "./api.js";
import {h, text, uid} from "./dom.js";

/** words: what there is to say first; enter(token): throws an ApiError if it opens nothing. */
export function loginForm(words, enter) {
	const id = uid("token");
	const input = h("input", {id, type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": `${id}-error`});
	const fault = h("p", {class: "form-error", role: "alert", id: `${id}-error`}, words);
	const button = h("button", {type: "submit", class: "primary"}, "Log in");

	async function submit(event) {
		event.preventDefault();
		button.disabled = true;
		text(fault, "");
		try {
			await enter(input.value.trim());
		} catch (e) {
			if (!(e instanceof ApiError))
				throw e;
			text(fault, e.status === 401 ? "This token opens nothing here."
				: e.status === 429 ? `Too many wrong tokens: try again in ${e.retryAfter} s.` : e.message);
			input.focus();
		}
		button.disabled = false;
	}
	return h("form", {class: "card login", onsubmit: submit},
		h("h1", {}, "Log in"), h("p", {class: "dim"}, "A token of this concuryd. It is kept in this page's memory alone, and forgotten when you leave."),
		h("div", {class: "field"}, h("label", {for: id}, "Token"), input), fault, h("div", {class: "buttons"}, button));
}
