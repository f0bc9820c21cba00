// A real browser on the dashboard, and the test in Python that plays the network: `ask` prints a line that it carries
// out, and reads its answer.

import assert from "node:assert/strict";
import fs from "node:fs/promises";
import readline from "node:readline";
import {chromium} from "playwright-core";

export const BASE = process.env.DASHBOARD_URL;
export const TIMEOUT_MS = 30000;

const lines = readline.createInterface({input: process.stdin})[Symbol.asyncIterator]();

export async function ask(what, ...args) {
	console.log(JSON.stringify({ask: what, args}));
	const {value, done} = await lines.next();
	assert(!done, "nobody answers");
	return JSON.parse(value);
}

export function step(name) {
	console.log(JSON.stringify({done: name}));
}

/** Wait until f() is true (or what it returns); says what was seen last. */
export async function until(what, f, timeout = TIMEOUT_MS) {
	const end = Date.now() + timeout;
	for (;;) {
		const value = await f();
		if (value)
			return value;
		if (Date.now() > end)
			throw new Error(`${what}: not within ${timeout} ms`);
		await new Promise((r) => setTimeout(r, 100));
	}
}

/** The API, as another client uses it. */
export async function api(method, path, body, token = process.env.OPERATE_TOKEN) {
	const headers = {Authorization: `Bearer ${token}`, ...(body ? {"Content-Type": "application/json"} : {})};
	const answer = await fetch(BASE + path, {method, headers, body: body && JSON.stringify(body)});
	assert(answer.ok, `${method} ${path}: ${answer.status} ${await answer.clone().text()}`);
	return answer.json();
}

export const dialog = (page) => page.getByRole("dialog");
export const press = (page, name) => page.getByRole("button", {name, exact: true}).click();

export async function launch() {
	return chromium.launch({
		executablePath: "/usr/bin/chromium",
		// The test is root in a namespace of its own; what the page may do its policy says.
		args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"],
	});
}

/** A page whose complaints, and requests to anybody but concuryd, are faults. */
export async function open(browser, options = {}) {
	const context = await browser.newContext({viewport: {width: 1440, height: 900}, acceptDownloads: true, ...options});
	const page = await context.newPage();
	page.cdp = await context.newCDPSession(page);
	page.faults = [];
	page.forgiven = [/status of 4\d\d/]; // answers that the test provokes; the browser tells of each
	page.on("pageerror", (e) => page.faults.push(`error: ${e.message}`));
	page.on("console", (m) => {
		if (["error", "warning"].includes(m.type()) && !page.forgiven.some((f) => f.test(m.text())))
			page.faults.push(`console: ${m.text()}`);
	});
	page.asked = new Set(); // and not answered yet
	const name = (r) => `${r.method()} ${r.url().slice(BASE.length)}`;
	for (const over of ["requestfinished", "requestfailed"])
		page.on(over, (r) => page.asked.delete(name(r)));
	page.on("request", (r) => {
		page.asked.add(name(r));
		if (!r.url().startsWith(BASE) && !r.url().startsWith(`blob:${BASE}`))
			page.faults.push(`asked another host: ${r.url()}`);
	});
	page.setDefaultTimeout(TIMEOUT_MS);
	return page;
}

export async function logIn(page, token) {
	await page.goto(BASE);
	await page.getByLabel("Token").fill(token);
	await page.getByRole("button", {name: "Log in"}).click();
	await page.getByRole("link", {name: "Consistency"}).waitFor();
}

export function assertClean(page) {
	assert.deepEqual(page.faults, []);
}

/** What a chart shows: {labels, datasets: [{label, data}]}. */
export async function chartData(page, label) {
	return page.getByRole("img", {name: label}).evaluate((canvas) => {
		const {labels, datasets} = window.Chart.getChart(canvas).data;
		return {labels: [...labels], datasets: datasets.map(({label: name, data}) => ({label: name, data: [...data]}))};
	});
}

const within = (ms, promise, otherwise) => Promise.race([promise, new Promise((r) => setTimeout(r, ms, otherwise))]);

/** What page and dialogs say of themselves, whether or not a frame is ever drawn. */
async function stateOf(page) {
	const look = `new Promise((done) => {
		const say = (frame) => done({frame, visible: document.visibilityState, focus: document.activeElement?.outerHTML.slice(0, 200),
			dialogs: [...document.querySelectorAll("dialog")].map((d) => ({open: d.open, text: d.innerText,
				disabled: [...d.querySelectorAll("button:disabled")].map((b) => b.textContent)})),
			toasts: [...document.querySelectorAll(".toast")].map((t) => t.innerText)});
		requestAnimationFrame(() => say("drawn"));
		setTimeout(say, 2000, "none within 2 s");
	})`;
	const said = page.cdp.send("Runtime.evaluate", {expression: look, awaitPromise: true, returnByValue: true})
		.then((r) => r.result.value, (e) => e.message);
	return {page: await within(5000, said, "does not run its scripts"), unanswered: [...page.asked], faults: page.faults};
}

/** The browser's processes with what the kernel lets them wait for, and how much all wait for disk, processor and memory. */
async function machine() {
	const read = (path) => fs.readFile(path, "utf8").catch(() => "");
	const all = new Map();
	for (const pid of (await fs.readdir("/proc")).filter((n) => /^\d+$/.test(n))) {
		const stat = /^\d+ \((.*)\) (\S) (\d+)/s.exec(await read(`/proc/${pid}/stat`));
		if (stat)
			all.set(pid, {name: stat[1], state: stat[2], parent: stat[3]});
	}
	const ours = (pid) => pid === String(process.pid) || (all.has(pid) && ours(all.get(pid).parent));
	const processes = [];
	for (const [pid, {name, state}] of all)
		if (ours(pid) && pid !== String(process.pid)) {
			const type = /--type=(\S+?)(?=[\0 ]|$)/.exec(await read(`/proc/${pid}/cmdline`))?.[1] || "";
			processes.push(`${name} ${type} ${state} ${await read(`/proc/${pid}/wchan`)}`);
		}
	const pressure = {};
	for (const what of ["io", "cpu", "memory"])
		pressure[what] = (await read(`/proc/pressure/${what}`)).split("\n")[0];
	return {processes, pressure, load: (await read("/proc/loadavg")).trim()};
}

/** Run main, end with 1 and the reason if it fails. */
export async function run(main) {
	const browser = await launch();
	let code = 0;
	try {
		await main(browser);
	} catch (e) {
		const page = browser.contexts().flatMap((c) => c.pages()).at(-1);
		const seen = page ? {url: page.url(), ...await stateOf(page), ...await machine()} : {};
		await page?.screenshot({path: `${process.env.SHOTS}/failed.png`, timeout: 5000}).catch((why) => {
			seen.screenshot = why.message.split("\n")[0];
		});
		console.log(JSON.stringify({failed: `${e.stack || e}, ${JSON.stringify(seen)}`}));
		code = 1;
	}
	await within(10000, browser.close());
	process.exit(code);
}
