// A change of one resource, as a dialog: fields, what it would do (a dry run, again at each edit), and what to do if
// somebody else was faster.

import {ApiError, call} from "./api.js";
import {h, text} from "./dom.js";
import {clearErrors, showErrors} from "./form.js";
import {modal, toast} from "./dialog.js";
import {count, percent, plural} from "./format.js";
import {hasten} from "./state.js";

const TYPING_MS = 250;

function withDryRun(target) {
	return `${target}${target.includes("?") ? "&" : "?"}dry_run=true`;
}

/** The plan of a dry run as a table of shares before and after. */
function planOf(plan) {
	const moved = plan.flows_moved;
	const facts = h("ul", {class: "facts"},
		h("li", {}, `${plural(plan.dcodes_moved, "Dcode")} ${plan.dcodes_moved === 1 ? "moves" : "move"}`),
		h("li", {}, `${plural(plan.flows_pinned, "flow")} pinned of ${count(plan.flows_known)} known`),
		h("li", {class: moved ? "bad" : "good"}, moved ? `${plural(moved, "flow")} LOSE their DIP` : "no flow moves"));
	const rows = plan.vips.flatMap((v) => {
		const before = v.dips.reduce((n, d) => n + d.dcodes_before, 0);
		return v.dips.map((d) => h("tr", {class: d.action === "keep" ? "" : "changed"},
			h("th", {scope: "row"}, plan.vips.length > 1 ? `${v.id}/${d.id}` : d.id),
			h("td", {class: "num"}, before ? percent(d.dcodes_before / before) : "–"),
			h("td", {class: "num"}, percent(d.share)),
			h("td", {class: "num"}, count(d.dcodes))));
	});
	if (!rows.length)
		return [facts];
	return [facts, h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "What each DIP would get"}, h("table", {class: "plan"},
		h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "DIP"), h("th", {scope: "col", class: "num"}, "Share now"),
			h("th", {scope: "col", class: "num"}, "Share after"), h("th", {scope: "col", class: "num"}, "Dcodes after"))),
		h("tbody", {}, rows)))];
}

function membersThatDiffer(mine, theirs) {
	return Object.keys(mine).filter((k) => k in theirs && JSON.stringify(mine[k]) !== JSON.stringify(theirs[k]));
}

const word = (v) => typeof v === "object" && v !== null ? JSON.stringify(v) : String(v);

/** What the form says of a conflict: theirs beside ours, and what can be done. */
function conflictOf(spec, theirs, keep, over) {
	const mine = spec.body?.() || {};
	const differing = theirs ? membersThatDiffer(mine, theirs) : [];
	const list = differing.map((k) => h("li", {}, h("b", {}, k), `: theirs ${word(theirs[k])}, yours ${word(mine[k])}`));
	return h("div", {class: "conflict", role: "alertdialog", "aria-label": "Changed by somebody else"},
		h("p", {}, h("strong", {}, "Somebody else has changed this meanwhile. "),
			theirs ? "Nothing of yours has been applied." : "It is gone now. Nothing of yours has been applied."),
		list.length ? h("ul", {}, list) : null,
		h("div", {class: "buttons"},
			h("button", {type: "button", onclick: keep}, "Keep theirs"),
			theirs ? h("button", {type: "button", class: "danger", onclick: over}, "Apply mine over theirs") : null));
}

/** Ask for a change and carry it out. spec:
 *    title, intro       what is said
 *    fields             of form.js; the body is made of them by body() (none: no body)
 *    method, target()   of the request
 *    watch, etag        the resource whose ETag the change must meet, and that tag; watch null: none
 *    createOnly         If-None-Match: *
 *    confirm            a word that must be typed first
 *    verb, danger       of the button
 *    done(answer)       what is said then
 *  Resolves with the answer, or null. */
export function change(spec) {
	const fields = spec.fields || [];
	let etag = spec.etag ?? null;

	return modal(spec.title, (close, dialog) => {
		const fault = h("p", {class: "form-error", role: "alert"});
		const plan = h("div", {class: "preview", "aria-live": "polite"}, h("p", {class: "dim"}, "Looking what it would do …"));
		const apply = h("button", {type: "submit", class: spec.danger ? "danger" : "primary"}, spec.verb);
		const typed = spec.confirm ? h("input", {type: "text", autocomplete: "off", spellcheck: "false", name: "confirm",
			"aria-label": `Type ${spec.confirm} to confirm`, oninput: () => become(state)}) : null;
		let state = "editing"; // or "applying", "conflict", "closed": only who edits asks for a preview, or applies
		let timer = 0;
		let asking = new AbortController(); // of the preview, or of what stands there instead of ours

		function become(next) {
			state = next;
			apply.disabled = state !== "editing" || (typed && typed.value !== spec.confirm);
		}
		/** What was asked before is of no interest any more, nor what the clock was to ask. Returns the next one's signal. */
		function forget() {
			clearTimeout(timer);
			asking.abort();
			asking = new AbortController();
			return asking.signal;
		}
		const request = (target, signal) => call(target, {
			method: spec.method, body: spec.body ? spec.body() : undefined, signal,
			headers: spec.createOnly ? {"If-None-Match": "*"} : etag ? {"If-Match": etag} : {},
		});

		/** Theirs, or null if it is gone, or undefined if nobody wants to know any more. */
		async function look() {
			const signal = forget();
			try {
				const now = await call(spec.watch, {signal});
				if (signal.aborted)
					return undefined;
				etag = now.etag;
				return now.body;
			} catch (e) {
				if (signal.aborted)
					return undefined;
				if (e.status !== 404)
					throw e;
				return null;
			}
		}

		async function showConflict() {
			become("conflict");
			const theirs = await look();
			if (theirs === undefined)
				return;
			const choice = conflictOf(spec, theirs, () => close(null), () => {
				choice.remove();
				become("editing");
				apply.focus();
				preview();
			});
			clearErrors(fields, fault);
			fault.before(choice);
			choice.querySelector("button").focus();
		}

		async function fail(e, lenient) {
			if (!(e instanceof ApiError))
				throw e;
			plan.replaceChildren();
			if (e.status === 412 && spec.watch)
				await showConflict().catch((why) => {
					become("editing");
					showErrors(why, fields, fault);
				});
			else if (e.status === 412 && spec.createOnly)
				fields.find((f) => f.pointer === "/id").fault("this id is taken");
			else
				showErrors(e, fields, fault, lenient);
		}

		async function preview() {
			const signal = forget();
			try {
				const answer = await request(withDryRun(spec.target()), signal);
				if (signal.aborted)
					return;
				clearErrors(fields, fault);
				plan.replaceChildren(...planOf(answer.body.plan));
			} catch (e) {
				if (!signal.aborted)
					await fail(e, true);
			}
		}

		/** What was sent cannot be taken back: who closes the dialog meanwhile is told how it went all the same. */
		async function submit(event) {
			event.preventDefault();
			if (apply.disabled)
				return;
			forget();
			become("applying");
			try {
				const answer = await request(spec.target());
				toast(spec.done(answer));
				for (const w of answer.body?.warnings || [])
					toast(w, "bad");
				hasten();
				close(answer);
			} catch (e) {
				if (state === "closed") {
					toast(`${spec.title}: ${e.status === 412 ? "not applied, somebody else has changed it meanwhile" : e.message}`, "bad");
				} else {
					become("editing");
					await fail(e);
				}
			}
		}

		const form = h("form", {novalidate: true, onsubmit: submit, oninput: (event) => {
			if (event.target === typed || state !== "editing")
				return;
			clearTimeout(timer);
			timer = setTimeout(preview, TYPING_MS);
		}},
		spec.intro ? h("p", {}, spec.intro) : null,
		h("div", {class: "fields"}, fields),
		spec.preview === false ? null : plan,
		typed ? h("label", {class: "typed"}, h("span", {}, "Type ", h("code", {}, spec.confirm), " to confirm"), typed) : null,
		fault,
		h("div", {class: "buttons"}, h("button", {type: "button", onclick: () => close(null)}, "Cancel"), apply));
		become("editing");
		if (spec.preview !== false && spec.ready !== false)
			preview();
		else
			text(plan, "");
		dialog.addEventListener("close", () => {
			forget();
			become("closed");
		});
		return form;
	}, "change");
}
