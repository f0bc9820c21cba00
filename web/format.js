// Numbers, rates and times as people read them. All are of stable width with tabular digits.

const grouped = new Intl.NumberFormat("en-US");

export function count(n) {
	return Number.isFinite(n) ? grouped.format(Math.round(n)) : "–";
}

/** 12.3k: three digits that mean something. */
export function short(n, unit = "") {
	if (!Number.isFinite(n))
		return "–";
	const steps = ["", "k", "M", "G", "T", "P"];
	let i = 0;
	while (Math.abs(n) >= 999.5 && i < steps.length - 1) {
		n /= 1000;
		i++;
	}
	const digits = i === 0 && (Number.isInteger(n) || n >= 100) || n >= 99.95 ? 0 : n >= 9.995 ? 1 : i || n ? 2 : 0;
	return `${n.toFixed(digits)}${unit || steps[i] ? " " : ""}${steps[i]}${unit}`;
}

/** The same for an axis, whose figures are round. */
export function round(words) {
	return words.replace(/(\.\d*?)0+ /, (_, digits) => `${digits === "." ? "" : digits} `);
}

export const pps = (n) => short(n, "pps");
export const bps = (n) => short(n, "bit/s");

export function bytes(n) {
	if (!Number.isFinite(n))
		return "–";
	return short(n, "B");
}

export function percent(share) {
	if (share > 0 && share < 0.0005)
		return "< 0.1 %";
	return Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–";
}

export function micros(us) {
	if (!Number.isFinite(us))
		return "–";
	if (us < 1000)
		return `${us} µs`;
	return us < 1e6 ? `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms` : `${(us / 1e6).toFixed(1)} s`;
}

export function seconds(s) {
	if (!Number.isFinite(s))
		return "–";
	s = Math.max(0, Math.round(s));
	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min ${s % 60} s`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export function clock(t) {
	const d = new Date(t);
	return Number.isNaN(d.getTime()) ? "–" : d.toLocaleTimeString("en-GB");
}

export function when(t) {
	const d = new Date(t);
	if (t === null || Number.isNaN(d.getTime()))
		return "–";
	const day = `${d.getFullYear()}-${String(d.getMonth() + 1).padStart(2, "0")}-${String(d.getDate()).padStart(2, "0")}`;
	return `${day} ${d.toLocaleTimeString("en-GB")}`;
}

export function endpoint(vip) {
	const host = vip.address.includes(":") ? `[${vip.address}]` : vip.address;
	const port = vip.port === 0 ? "*" : vip.port_end ? `${vip.port}-${vip.port_end}` : vip.port;
	return `${host}:${port}/${vip.protocol}`;
}

export function plural(n, one, many = `${one}s`) {
	return `${count(n)} ${n === 1 ? one : many}`;
}
