// Dialogs and passing notes.

import {h, uid} from "./dom.js";

/** Show a modal dialog; resolves with what close(value) was given, or null if it was dismissed. fill(close, dialog)
 *  returns its children. */
export function modal(title, fill, className = "") {
	return new Promise((resolve) => {
		const id = uid("dialog");
		let answer = null;
		const dialog = h("dialog", {"aria-labelledby": id, class: className});
		const close = (value) => {
			answer = value ?? null;
			dialog.close();
			dialog.dispatchEvent(new Event("close")); // the browser's own waits for a frame, and a hidden page draws none
		};
		dialog.append(
			h("header", {}, h("h2", {id}, title),
				h("button", {type: "button", class: "quiet close", "aria-label": "Close", onclick: () => close(null)}, "✕")),
			...[fill(close, dialog)].flat());
		dialog.addEventListener("close", () => {
			dialog.remove();
			resolve(answer); // the first time counts
		});
		document.body.append(dialog);
		dialog.showModal();
		dialog.querySelector("[autofocus], input, select, textarea")?.focus();
	});
}

/** A note that goes by itself; errors stay until they are closed. */
export function toast(words, kind = "good") {
	const e = h("div", {class: "toast", data: {kind}}, h("span", {}, words),
		h("button", {type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => e.remove()}, "✕"));
	document.getElementById("toasts").append(e);
	if (kind === "good")
		setTimeout(() => e.remove(), 6000);
}
