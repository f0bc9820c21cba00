// What there is to see: every view for axe-core and for people, at two widths in both themes; what a token that may
// only read sees; that nothing jumps, and nothing is wider than a small phone or lost on a large screen.

import assert from "node:assert/strict";
import fs from "node:fs/promises";
import {createRequire} from "node:module";
import {api, ask, assertClean, BASE, chartData, logIn, open, run, step, until} from "./browser.mjs";

const AXE = await fs.readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const WIDTHS = [[1440, 900], [360, 740]];
const HASHES = ["#/", "#/vips/web", "#/consistency", "#/explain", "#/changes"];
const THEMES = ["light", "dark"];

async function populate() {
	const vips = {
		web: {address: process.env.VIP, port: 80, protocol: "tcp", health: {type: "http", path: "/name", interval_ms: 300, rise: 1, fall: 1}},
		dns: {address: process.env.VIP, port: 53, protocol: "udp"},
		mail: {address: "fd09::100", port: 25, protocol: "tcp", affinity: "client"},
	};
	for (const [id, body] of Object.entries(vips))
		await api("PUT", `/v1/vips/${id}`, body);
	for (const n of [1, 2, 3])
		await api("PUT", `/v1/vips/web/dips/b${n}`, {address: `10.9.0.1${n}`, weight: n});
	await api("PUT", "/v1/vips/web/dips/closed", {address: "10.9.0.1", weight: 2});
	await api("PUT", "/v1/vips/dns/dips/d1", {address: "10.9.0.11"});
	await api("PUT", "/v1/vips/mail/dips/m1", {address: "fd09::11"});
}

/** name -> how to get there. */
const VIEWS = {
	overview: async (page) => page.goto(`${BASE}/#/`),
	vip: async (page) => {
		await page.goto(`${BASE}/#/vips/web`);
		await page.getByText(/^Measured over/).waitFor();
	},
	consistency: async (page) => {
		await page.goto(`${BASE}/#/consistency`);
		await page.getByText("violations_total").waitFor();
	},
	explain: async (page) => {
		await page.goto(`${BASE}/#/explain?vip=web&src=10.9.0.1&sport=40000`);
		await page.getByRole("list", {name: "The way of its packets"}).waitFor();
	},
	changes: async (page) => {
		await page.goto(`${BASE}/#/changes`);
		await page.getByRole("tab", {name: "Versions"}).click();
		await page.getByRole("button", {name: /^Diff of version/}).nth(0).click();
		await page.locator(".diff li").first().waitFor();
	},
	weight: async (page) => {
		await page.goto(`${BASE}/#/vips/web`);
		await page.getByRole("button", {name: "Edit the weight of b3"}).click();
		await page.getByRole("textbox", {name: "Weight"}).fill("9");
		await page.getByText("Share after").waitFor();
	},
	cut: async (page) => {
		await page.goto(`${BASE}/#/vips/web`);
		await page.getByRole("button", {name: "Cut b1"}).click();
		await page.getByText("Share after").waitFor();
	},
};

/** Colours of a moment between two themes are nobody's. */
async function isStill(page) {
	await page.evaluate(() => Promise.allSettled(document.getAnimations().map((a) => a.finished)));
}

async function faultsOf(page, where) {
	await isStill(page);
	const results = await page.evaluate(() => window.axe.run(document, {resultTypes: ["violations"]}));
	return results.violations.filter((v) => ["serious", "critical"].includes(v.impact))
		.map((v) => `${where}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target} ${n.failureSummary}`).join("; ")}`);
}

async function fits(page, where) {
	const widths = await page.evaluate(() => [document.documentElement, ...document.querySelectorAll("dialog")]
		.map((e) => [e.scrollWidth, e.clientWidth]));
	for (const [wide, inner] of widths)
		assert(wide <= inner, `${where}: ${wide} wide in ${inner}`);
}

async function look(page, name, faults) {
	for (const [width, height] of WIDTHS)
		for (const theme of THEMES) {
			const where = `${name}-${width}-${theme}`;
			await page.setViewportSize({width, height});
			await page.emulateMedia({colorScheme: theme});
			await fits(page, where);
			await page.screenshot({path: `${process.env.SHOTS}/${where}.png`, fullPage: !await page.getByRole("dialog").count()});
			if ((width > 1000) === (theme === "light")) // so each width, and each theme's colours, is looked at once
				faults.push(...await faultsOf(page, where));
		}
	await page.setViewportSize({width: WIDTHS[0][0], height: WIDTHS[0][1]});
}

/** Axe is the test's, and no script of the page's own: it comes from outside of its policy. */
async function openWithAxe(browser) {
	const page = await open(browser);
	await page.addInitScript({content: AXE});
	return page;
}

async function everyView(browser, page) {
	const faults = [];
	const before = await openWithAxe(browser);
	await before.goto(BASE);
	await before.getByLabel("Token").waitFor();
	await look(before, "login", faults);
	assertClean(before);
	await before.context().close();
	for (const [name, go] of Object.entries(VIEWS)) {
		await go(page);
		await look(page, name, faults);
		await page.keyboard.press("Escape");
		await page.getByRole("dialog").waitFor({state: "detached"});
	}
	assert.deepEqual(faults, []);
	step("every view");
}

async function extremes(page) {
	for (const hash of HASHES)
		for (const [width, height] of hash === "#/vips/web" ? [[320, 600], [3840, 2160]] : [[320, 600]]) {
			await page.setViewportSize({width, height});
			await page.goto(`${BASE}/${hash}`);
			await page.getByRole("main").getByRole("heading").first().waitFor({state: "attached"});
			await fits(page, `${hash} at ${width}`);
		}
	await page.setViewportSize({width: 1440, height: 900});
	step("extremes");
}

/** Figures change for some rounds, and nothing moves. */
async function nothingJumps(page) {
	for (const go of [VIEWS.overview, VIEWS.vip]) {
		await go(page);
		await page.waitForTimeout(700);
		const moved = await page.evaluate(() => new Promise((done) => {
			let sum = 0;
			new PerformanceObserver((list) => {
				for (const e of list.getEntries())
					sum += e.value;
			}).observe({type: "layout-shift"});
			setTimeout(() => done(sum), 2200);
		}));
		assert(moved < 0.01, `what is shown moves: ${moved}`);
	}
	step("nothing jumps");
}

/** With the keyboard alone: past the bar, to a VIP, and what has the focus is seen. */
async function keyboard(page) {
	await page.goto(`${BASE}/#/`);
	const first = page.locator("a, button, input").first();
	assert.equal(await first.textContent(), "Skip to the content");
	await first.focus();
	await page.keyboard.press("Enter");
	assert.equal(await page.evaluate(() => document.activeElement.id), "main");
	await until("the VIP has the focus", async () => {
		await page.keyboard.press("Tab");
		return page.evaluate(() => document.activeElement.textContent === "web");
	});
	const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
	assert.notEqual(outline, "none");
	await page.keyboard.press("Enter");
	await page.getByRole("heading", {name: "web", level: 1}).waitFor();
	step("keyboard");
}

/** Who opens the page now sees what was before. */
async function remembers(page) {
	const first = await until("what was before", async () => {
		const {datasets} = await chartData(page, /^Packets a second of each VIP/);
		return datasets[0]?.data.find((p) => p.x < -0.3);
	});
	assert(first.y >= 0, JSON.stringify(first));
	step("remembers");
}

async function readOnly(browser) {
	const page = await open(browser);
	await logIn(page, process.env.READ_TOKEN);
	await page.getByText("read-token · read").waitFor();
	await remembers(page);
	const offered = async () => (await page.getByRole("main").getByRole("button").allTextContents());
	const quiet = /^(VIP|Address|Packets|Bits|Flows|Pinned|DIPs|Explain|Diff|Older ones)$/;
	for (const hash of HASHES) {
		await page.goto(`${BASE}/${hash}`);
		await page.getByRole("main").getByRole("heading").first().waitFor({state: "attached"});
		if (hash === "#/vips/web")
			await page.getByRole("rowheader", {name: "b1"}).waitFor();
		if (hash === "#/changes")
			await page.getByRole("tab", {name: "Versions"}).click();
		const more = (await offered()).filter((b) => !quiet.test(b));
		assert.deepEqual(more, [], `${hash} offers a reader changes`);
	}
	await page.reload(); // the token was nowhere but in memory
	await page.getByLabel("Token").waitFor();
	assertClean(page);
	await page.context().close();
	step("read-only");
}

run(async (browser) => {
	await populate();
	await ask("traffic_start", 1, 40);
	const page = await openWithAxe(browser);
	await logIn(page, process.env.OPERATE_TOKEN);
	await ask("hold", "b2");
	await api("DELETE", "/v1/vips/web/dips/b2");
	await VIEWS.vip(page);
	await page.getByRole("row", {name: /^closed/}).getByText(/Connection refused|down/).first().waitFor();
	await nothingJumps(page);
	await everyView(browser, page);
	await extremes(page);
	await keyboard(page);
	await readOnly(browser);
	assertClean(page);
	step("end");
});
