// The API's client. The token lives in this module, and nowhere else: it goes with the page.

const PATIENCE_MS = 30000;

let token = null;
let onRefused = () => {};

export function setToken(value) {
	token = value || null;
}

export function hasToken() {
	return token !== null;
}

/** Called when the API asks who we are (401). */
export function whenRefused(f) {
	onRefused = f;
}

/** What the API answered instead of what was wanted: an RFC 9457 problem. status 0: no answer came. */
export class ApiError extends Error {
	constructor(status, problem, headers) {
		super(problem.detail || problem.title || `status ${status}`);
		this.status = status;
		this.problem = problem;
		this.errors = problem.errors || [];
		this.etag = problem.etag ?? headers?.get("ETag") ?? null;
		this.retryAfter = Number(headers?.get("Retry-After")) || 0;
	}
}

export function query(parameters) {
	const entries = Object.entries(parameters || {}).filter(([, v]) => v !== null && v !== undefined && v !== "");
	return entries.length ? `?${new URLSearchParams(entries)}` : "";
}

/** `/v1/vips/web` of path`/v1/vips/${id}`. */
export function path(strings, ...ids) {
	return strings.reduce((all, s, i) => all + encodeURIComponent(ids[i - 1]) + s);
}

/** The bare answer, whatever its status. options: method, body (an object), headers, signal. */
export async function open(target, options = {}) {
	const headers = {...options.headers};
	if (token)
		headers.Authorization = `Bearer ${token}`;
	let body;
	if (options.body !== undefined) {
		body = JSON.stringify(options.body);
		headers["Content-Type"] = options.method === "PATCH" ? "application/merge-patch+json" : "application/json";
	}
	try {
		return await fetch(target, {
			method: options.method || "GET", headers, body, signal: options.signal,
			cache: "no-store", credentials: "same-origin", redirect: "error",
		});
	} catch (e) {
		throw unanswered(e, options.signal);
	}
}

/** Why no answer came: what is thrown. Who does not want it any more (aborted its signal) gets what it gave as the reason. */
function unanswered(error, signal) {
	if (error.name === "TimeoutError")
		return new ApiError(0, {detail: `concuryd has not answered within ${PATIENCE_MS / 1000} s; what was asked for may be done all the same`});
	return signal?.aborted ? error : new ApiError(0, {detail: "concuryd does not answer"});
}

async function refuse(response) {
	let problem = {title: response.statusText};
	try {
		problem = await response.json();
	} catch {
		// A proxy's page, or nothing: the status says what there is to say.
	}
	const error = new ApiError(response.status, problem, response.headers);
	if (response.status === 401)
		onRefused(error);
	throw error;
}

/** {body, etag, status, date}; throws an ApiError, also if the answer does not come in time. */
export async function call(target, options = {}) {
	const late = AbortSignal.timeout(PATIENCE_MS);
	const signal = options.signal ? AbortSignal.any([options.signal, late]) : late;
	const response = await open(target, {...options, signal});
	if (!response.ok)
		await refuse(response);
	const body = response.status === 204 ? null : await response.json().catch((e) => {
		throw unanswered(e, signal);
	});
	return {body, etag: response.headers.get("ETag"), status: response.status, date: response.headers.get("Date")};
}

export async function get(target, options) {
	return (await call(target, options)).body;
}

/** An answer that is read while it comes; throws an ApiError. */
export async function stream(target, options) {
	const response = await open(target, options);
	if (!response.ok)
		await refuse(response);
	return response;
}

export async function getText(target) {
	return (await stream(target)).text();
}
