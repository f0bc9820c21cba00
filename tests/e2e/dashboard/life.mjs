// The whole life of a VIP: made, filled, weighted, contested, drained, cut, rolled back, audited, explained, recorded,
// removed. Traffic flows all the while.

import assert from "node:assert/strict";
import fs from "node:fs/promises";
import {api, ask, assertClean, chartData, dialog, logIn, open, press, run, step, until} from "./browser.mjs";

const OPERATE = process.env.OPERATE_TOKEN;
const VIP = process.env.VIP;
const SHARE_TOLERANCE = 8; // points of a hundred, of so many flows at least:
const FLOWS_MIN = 600;

const row = (page, dip) => page.getByRole("main").getByRole("row").filter({has: page.getByRole("rowheader", {name: dip})});

async function wrongTokens(page) {
	await page.goto(process.env.DASHBOARD_URL);
	await page.getByLabel("Token").fill("nonsense-0123456789abcdef");
	await press(page, "Log in");
	await page.getByText("This token opens nothing here").waitFor();
	assert.equal(await page.getByRole("navigation").getByRole("link").count(), 0);
	await logIn(page, OPERATE);
	assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0);
	assert(!page.url().includes(OPERATE));
	step("log in");
}

/** What the API refuses is said at the field it names. */
async function create(page) {
	await press(page, "Add a VIP");
	await dialog(page).getByLabel("Id").fill("web");
	await dialog(page).getByLabel("Address").fill("10.9.0");
	await dialog(page).getByLabel("Port").fill("65536");
	await press(page, "Add");
	await until("the port's error", async () => /65535/.test(await dialog(page).locator(".field", {hasText: "Port"}).getByRole("alert").textContent()));
	assert.notEqual(await dialog(page).locator(".field", {hasText: "Address"}).getByRole("alert").textContent(), "");
	assert.equal(await dialog(page).getByLabel("Port").getAttribute("aria-invalid"), "true");
	await dialog(page).getByLabel("Address").fill(VIP);
	await dialog(page).getByLabel("Port").fill("80");
	await press(page, "Add");
	await page.getByRole("heading", {name: "web", level: 1}).waitFor();
	await addDip(page, "b1", "10.9.0.11");
	await addDip(page, "b2", "10.9.0.12");
	for (const dip of ["b1", "b2"])
		await row(page, dip).getByText("up", {exact: true}).waitFor();
	step("create");
}

async function addDip(page, id, address) {
	await press(page, "Add a DIP");
	await dialog(page).getByLabel("Id").fill(id);
	await dialog(page).getByLabel("Address").fill(address);
	await dialog(page).getByText("Share after").waitFor(); // the dry run has answered
	await press(page, "Add");
	await row(page, id).waitFor();
}

/** The plot's measured shares come to the expected ones; returns what was seen. */
async function sharesSettle(page, expected) {
	let seen;
	await until(`shares of ${expected}`, async () => {
		seen = await chartData(page, /^Share of each DIP/);
		const flows = Number(/(\S+) new flows/.exec(await page.getByText(/^Measured over|^No traffic/).textContent())?.[1].replaceAll(",", ""));
		const near = (list) => list.every((v, i) => Math.abs(v - expected[i]) < SHARE_TOLERANCE);
		return flows > FLOWS_MIN && seen.datasets[0].data.length === expected.length &&
			seen.datasets[0].data.every((v, i) => Math.abs(v - expected[i]) < 1) && near(seen.datasets[1].data) && near(seen.datasets[2].data);
	}).catch((e) => {
		throw new Error(`${e.message}: ${JSON.stringify(seen)}`);
	});
	return seen;
}

/** By keys alone: the button, the field, Return. */
async function weight(page) {
	await sharesSettle(page, [50, 50]);
	await page.getByRole("button", {name: "Edit the weight of b2"}).focus();
	await page.keyboard.press("Enter");
	await dialog(page).getByLabel("Weight").waitFor();
	assert(await dialog(page).getByLabel("Weight").evaluate((e) => e === document.activeElement), "the field has no focus");
	await page.keyboard.press("ControlOrMeta+a");
	await page.keyboard.type("3");
	const plan = dialog(page).getByRole("row", {name: /^b2/});
	await until("the plan", async () => (await plan.textContent())?.includes("75.0 %"));
	assert(/50\.0 %/.test(await plan.textContent()), await plan.textContent());
	assert(/[1-9]\d* Dcodes move/.test(await dialog(page).textContent()));
	assert((await dialog(page).textContent()).includes("no flow moves"));
	assert.equal((await api("GET", "/v1/vips/web/dips/b2")).weight, 1, "a preview has changed something");
	await page.keyboard.press("Enter");
	await dialog(page).waitFor({state: "detached"});
	assert.equal((await api("GET", "/v1/vips/web/dips/b2")).weight, 3);
	await sharesSettle(page, [25, 75]);
	step("weight");
}

/** Two edit at once: the second one is asked. */
async function contest(page) {
	const begin = async (value) => {
		await press(page, "Edit the weight of b1");
		await dialog(page).getByLabel("Weight").fill(value);
		await dialog(page).getByText("Share after").waitFor();
	};
	await begin("5");
	await api("PATCH", "/v1/vips/web/dips/b1", {weight: 7});
	await press(page, "Apply");
	await dialog(page).getByText("weight: theirs 7, yours 5").waitFor();
	assert.equal((await api("GET", "/v1/vips/web/dips/b1")).weight, 7, "their change is lost");
	await press(page, "Keep theirs");
	await dialog(page).waitFor({state: "detached"});
	assert.equal((await api("GET", "/v1/vips/web/dips/b1")).weight, 7);

	await begin("5");
	await api("PATCH", "/v1/vips/web/dips/b1", {weight: 8});
	await press(page, "Apply");
	await press(page, "Apply mine over theirs");
	await dialog(page).getByText("Share after").waitFor();
	await press(page, "Apply");
	await dialog(page).waitFor({state: "detached"});
	assert.equal((await api("GET", "/v1/vips/web/dips/b1")).weight, 5);
	step("contest");
}

async function downAndUp(page) {
	await press(page, "Mark down b1");
	await dialog(page).getByText(/LOSE their DIP|no flow moves/).waitFor();
	await press(page, "Mark down");
	await row(page, "b1").getByText("down", {exact: true}).waitFor();
	await press(page, "Mark up b1");
	await press(page, "Mark up");
	await row(page, "b1").getByText("up", {exact: true}).waitFor();
	step("down and up");
}

/** A drain with its progress, taken back once, then cut by a typed word. */
async function drainAndCut(page) {
	const held = await ask("hold", "b2");
	await press(page, "Drain b2");
	await press(page, "Drain it");
	await row(page, "b2").getByText(/to go, cut in/).waitFor();
	await press(page, "Keep b2");
	await press(page, "Keep it");
	await row(page, "b2").getByText("up", {exact: true}).waitFor();
	await press(page, "Drain b2");
	await press(page, "Drain it");
	await row(page, "b2").getByRole("progressbar").waitFor();
	await explain(page, held, "b2");
	assert.deepEqual(await ask("speak"), ["b2"]);
	await page.goBack();
	await press(page, "Cut b2");
	const cut = dialog(page).getByRole("button", {name: "Cut it"});
	await dialog(page).getByText(/LOSE? their DIP|is cut|are cut/).first().waitFor();
	assert(await cut.isDisabled(), "it can be cut without the word");
	await dialog(page).getByLabel("Type b2 to confirm").fill("b");
	assert(await cut.isDisabled(), "it can be cut with another word");
	await dialog(page).getByLabel("Type b2 to confirm").fill("b2");
	await cut.click();
	await row(page, "b2").waitFor({state: "detached"});
	await ask("release");
	step("drain and cut");
}

async function explain(page, flow, dip) {
	await page.getByRole("link", {name: "Explain"}).click();
	await page.getByLabel("Client address").fill("10.9.0.300");
	await press(page, "Explain");
	await until("an error at the address", async () => await page.locator(".field", {hasText: "Client address"}).getByRole("alert").textContent() !== "");
	await page.getByLabel("Client address").fill(flow.src);
	await page.getByLabel("Client port").fill(String(flow.sport));
	await press(page, "Explain");
	const way = page.getByRole("list", {name: "The way of its packets"});
	await way.waitFor();
	assert((await way.textContent()).endsWith(`DIP${dip}`), await way.textContent());
	assert(/Decided by(pin|exact)/.test(await way.textContent()), await way.textContent());
	await page.getByText("The flow is known.").waitFor();
}

async function record(page) {
	await page.getByRole("link", {name: "Explain"}).click();
	await page.getByRole("textbox", {name: "Packets"}).fill("20");
	const [download] = await Promise.all([page.waitForEvent("download"), press(page, "Record and download")]);
	const file = await fs.readFile(await download.path());
	assert.equal(file.readUInt32LE(0), 0x0a0d0d0a, "no pcapng file");
	assert(file.includes("VIP web: forwarded to DIP b1 ("), "no comment says where packets went");
	step("record");
}

async function audit(page) {
	await page.getByRole("link", {name: "Consistency"}).click();
	await page.getByRole("button", {name: "Audit now"}).click();
	await page.getByText(/flows checked in .*, 0 misplaced/).waitFor();
	await page.getByRole("row", {name: /^violations_total 0 \S+/}).waitFor();
	const pauses = await chartData(page, /^Pauses of the workers/);
	const figures = await api("GET", "/v1/consistency");
	const shown = pauses.datasets[0].data.reduce((a, b) => a + b);
	assert(shown > 5 && shown <= figures.publish_pause_us.count, JSON.stringify(pauses));
	step("audit");
}

async function changes(page) {
	await page.getByRole("link", {name: "Changes"}).click();
	await page.getByText("DIP b2 was put").first().waitFor();
	await page.getByRole("tab", {name: "Events"}).focus();
	await page.keyboard.press("ArrowRight");
	const version = (n) => page.locator(".version").nth(n);
	const first = version(0); // the drain: to cut what drains changes the configuration no more
	await first.getByText("DELETE /v1/vips/web/dips/b2").waitFor();
	await first.getByRole("button", {name: /^Diff of version/}).click();
	await first.getByText("was removed").waitFor();
	await version(1).getByRole("button", {name: /^Roll back/}).click();
	await dialog(page).getByText("Share after").waitFor();
	await press(page, "Roll back");
	await dialog(page).waitFor({state: "detached"});
	assert.equal((await api("GET", "/v1/vips/web/dips/b2")).weight, 3);
	await page.getByRole("tab", {name: "Audit log"}).click();
	await page.getByLabel("Only changes of this author").fill("operate-token");
	await page.getByRole("cell", {name: "POST /v1/config:rollback"}).waitFor();
	step("changes");
}

/** What is old is marked so, and what comes after a restart is shown, events too, without anybody's doing. */
async function restart(page) {
	await page.getByRole("link", {name: "Overview", exact: true}).click();
	page.forgiven.push(/Failed to load resource|ERR_/); // of what is not there
	await ask("stop_daemon");
	await page.getByText(/^Stale: /).waitFor();
	assert(await page.evaluate(() => document.body.classList.contains("stale")));
	await ask("start_daemon");
	await page.getByRole("status").filter({hasText: /^Live$/}).waitFor();
	await page.getByRole("link", {name: "Changes"}).click();
	await page.getByText(/^started, with/).first().waitFor();
	step("restart");
}

async function remove(page) {
	await page.getByRole("link", {name: "Overview", exact: true}).click();
	await page.getByRole("link", {name: "web", exact: true}).click();
	await press(page, "Cut VIP");
	await dialog(page).getByLabel("Type web to confirm").fill("web");
	await press(page, "Cut it");
	await page.getByText("There is no VIP web").waitFor();
	assert.deepEqual((await api("GET", "/v1/vips")).items, []);
	step("remove");
}

run(async (browser) => {
	const page = await open(browser);
	await wrongTokens(page);
	await ask("traffic_start", 2, 5);
	await create(page);
	await weight(page);
	await contest(page);
	await downAndUp(page);
	await drainAndCut(page);
	await record(page);
	await audit(page);
	await changes(page);
	await restart(page);
	await remove(page);
	await ask("traffic_stop");
	assertClean(page);
	step("end");
});
