// Fields that are named as the API names its members, so that its errors find them.

import {h, text, uid} from "./dom.js";

/** A labelled field. kind: text, number, select (options), checkbox; pointer: the member ("/weight") or query
 *  parameter ("?src") whose errors are its own. */
export function field(name, {label, kind = "text", value = "", options = [], hint = "", pointer = `/${name}`, ...more}) {
	const id = uid("field");
	const control = kind === "select"
		? h("select", {id, name}, options.map((o) => h("option", {value: o, selected: o === value}, o)))
		: h("input", {id, name, type: kind === "number" ? "text" : kind, inputmode: kind === "number" ? "numeric" : null,
			autocomplete: "off", spellcheck: "false", ...more});
	if (kind !== "select")
		control.value = value ?? "";
	const error = h("p", {class: "field-error", id: `${id}-error`, role: "alert"});
	control.setAttribute("aria-describedby", `${id}-hint ${id}-error`);
	const e = h("div", {class: "field"}, h("label", {for: id}, label), control,
		h("p", {class: "hint", id: `${id}-hint`}, hint), error);
	e.control = control;
	control.addEventListener("input", () => {
		e.touched = true;
	});
	e.pointer = pointer;
	e.fault = (words) => {
		text(error, words);
		if (words)
			control.setAttribute("aria-invalid", "true");
		else
			control.removeAttribute("aria-invalid");
	};
	e.read = () => {
		const v = control.value.trim();
		if (kind === "number")
			return /^-?\d+(\.\d+)?$/.test(v) ? Number(v) : v === "" ? null : v; // what is no number the API refuses by name
		return v;
	};
	return e;
}

/** Show an ApiError: what belongs to a field at the field, the rest in `place`. lenient: of fields that nobody has
 *  touched yet nothing is said. */
export function showErrors(error, fields, place, lenient = false) {
	clearErrors(fields, place);
	const rest = [];
	for (const e of error.errors) {
		const pointer = e.parameter !== undefined ? `?${e.parameter}` : e.pointer;
		const f = fields.find((x) => x.pointer === pointer);
		if (f && lenient && !f.touched)
			continue;
		if (f)
			f.fault(e.detail);
		else
			rest.push(pointer ? `${pointer}: ${e.detail}` : e.detail);
	}
	if (!error.errors.length)
		rest.push(error.message);
	text(place, rest.join("; "));
}

export function clearErrors(fields, place) {
	for (const f of fields)
		f.fault("");
	text(place, "");
}
