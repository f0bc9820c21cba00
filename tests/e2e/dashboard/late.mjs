// Answers that come late, in another order, or never, while a dialog is open: it is in one state at a time, and what was
// asked for before says nothing any more.

import assert from "node:assert/strict";
import {api, assertClean, dialog, logIn, open, press, run, step, until} from "./browser.mjs";

const DIP = "/v1/vips/web/dips/b1";
const WEIGHT = "Edit the weight of b1";
const TYPING_MS = 250; // until a preview is asked for (change.js), and as much again that it is not
const PATIENCE_MS = 400; // instead of the page's half minute

const isPreview = (r) => r.url().includes("dry_run=true");
const isLook = (r) => r.method() === "GET";

/** Requests for b1 that match are held until release() is called; kept.list is what came. */
async function hold(page, matches) {
	const kept = {list: []};
	const gate = new Promise((r) => {
		kept.release = r;
	});
	const handler = async (route) => {
		if (!matches(route.request()))
			return route.fallback();
		kept.list.push(route.request());
		await gate;
		return route.continue().catch(() => {}); // nobody waits for it any more
	};
	await page.route((url) => url.pathname === DIP, handler);
	kept.came = (n = 1) => until(`request ${n}`, async () => kept.list.length >= n);
	kept.end = async () => {
		kept.release();
		await page.unrouteAll({behavior: "wait"});
	};
	return kept;
}

const pause = () => new Promise((r) => setTimeout(r, 2 * TYPING_MS));
const field = (page) => dialog(page).getByLabel("Weight");
const conflicts = (page) => page.getByRole("alertdialog").count();
const weight = async () => (await api("GET", DIP)).weight;

async function begin(page) {
	await press(page, WEIGHT);
	await dialog(page).getByText("no flow moves").waitFor();
}

/** What is typed is applied at once, before it is time to ask what it would do: that is not asked any more. */
async function applyAtOnce(page) {
	await begin(page);
	const submits = await hold(page, (r) => r.method() === "PATCH" && !isPreview(r));
	const previews = await hold(page, isPreview);
	await field(page).fill("3");
	await field(page).press("Enter");
	await submits.came();
	await pause();
	assert.equal(previews.list.length, 0, "a preview is asked for while the change is carried out");
	await submits.end();
	await dialog(page).waitFor({state: "detached"});
	assert.equal(await weight(), 3);
	step("apply at once");
}

/** Nor does a preview tell of the conflict that the change has met, while theirs is looked for: it is shown once. */
async function oneConflict(page) {
	await begin(page);
	const submits = await hold(page, (r) => r.method() === "PATCH" && !isPreview(r));
	const previews = await hold(page, isPreview);
	const looks = await hold(page, isLook);
	await api("PATCH", DIP, {weight: 7});
	await field(page).fill("4");
	await field(page).press("Enter");
	await submits.came();
	await pause();
	submits.release();
	await looks.came();
	previews.release();
	await pause();
	assert.equal(looks.list.length, 1, "theirs is looked for twice");
	await looks.end();
	await dialog(page).getByText("weight: theirs 7, yours 4").waitFor();
	assert.equal(await conflicts(page), 1);
	step("one conflict");
}

/** From that conflict: what a preview finds later is the conflict of then; to type meanwhile asks for none. */
async function overTheirs(page) {
	const previews = await hold(page, isPreview);
	await field(page).fill("5");
	await pause();
	assert.equal(previews.list.length, 0, "a preview is asked for under a conflict");
	await press(page, "Apply mine over theirs");
	await previews.came();
	assert.equal(await conflicts(page), 0);
	assert.equal(await page.evaluate(() => document.activeElement.textContent), "Apply");
	await press(page, "Apply");
	await dialog(page).waitFor({state: "detached"});
	await previews.end();
	await pause();
	assert.equal(await page.getByRole("dialog").count(), 0);
	assert.equal(await weight(), 5);
	step("over theirs");
}

/** Theirs cannot be had: that is said, and the change can be tried again. */
async function noLook(page) {
	await begin(page);
	await api("PATCH", DIP, {weight: 8});
	const refuse = (route) => isLook(route.request()) ? route.abort() : route.fallback();
	page.forgiven.push(/Failed to load resource|ERR_/);
	await page.route((url) => url.pathname === DIP, refuse);
	await field(page).fill("6");
	await press(page, "Apply");
	await dialog(page).getByText("concuryd does not answer").waitFor();
	assert.equal(await conflicts(page), 0);
	await page.unrouteAll();
	await press(page, "Apply");
	await dialog(page).getByText("weight: theirs 8, yours 6").waitFor();
	await press(page, "Keep theirs");
	await dialog(page).waitFor({state: "detached"});
	assert.equal(await weight(), 8);
	step("no look");
}

/** No answer comes to the change itself: that is said, and it can be tried again. */
async function noAnswer(page) {
	await begin(page);
	const submits = await hold(page, (r) => r.method() === "PATCH" && !isPreview(r));
	await page.evaluate((ms) => {
		const timeout = AbortSignal.timeout;
		AbortSignal.timeout = () => timeout.call(AbortSignal, ms);
		window.patient = () => {
			AbortSignal.timeout = timeout;
		};
	}, PATIENCE_MS);
	await field(page).fill("9");
	await press(page, "Apply");
	await dialog(page).getByText(/has not answered within/).waitFor();
	await page.evaluate(() => window.patient());
	await submits.end();
	await press(page, "Apply");
	await dialog(page).waitFor({state: "detached"});
	assert.equal(await weight(), 9);
	step("no answer");
}

/** Whoever closes a dialog ends what it asks and what it was to ask; a change that was sent tells how it went. */
async function close(page) {
	const gone = [];
	const note = (r) => gone.push(r.url());
	page.on("requestfailed", note);
	const previews = await hold(page, isPreview);
	await press(page, WEIGHT);
	await previews.came();
	await press(page, "Cancel");
	await until("the preview's end", async () => gone.some((url) => url.includes("dry_run")), 2000);
	await press(page, WEIGHT);
	await previews.came(2);
	await field(page).fill("2");
	await page.keyboard.press("Escape");
	await dialog(page).waitFor({state: "detached"});
	await pause();
	assert.equal(previews.list.length, 2, "a closed dialog asks");
	page.off("requestfailed", note);
	await previews.end();
	step("close");
}

async function closeWhileApplied(page) {
	for (const [mine, theirs, said] of [["2", null, /b1 has another weight/], ["4", 6, /not applied, somebody else has changed it/]]) {
		await page.getByRole("button", {name: "Dismiss"}).evaluateAll((all) => all.forEach((b) => b.click()));
		await begin(page);
		const submits = await hold(page, (r) => r.method() === "PATCH" && !isPreview(r));
		await field(page).fill(mine);
		await press(page, "Apply");
		await submits.came();
		if (theirs)
			await api("PATCH", DIP, {weight: theirs});
		await press(page, "Cancel");
		await dialog(page).waitFor({state: "detached"});
		await submits.end();
		await page.locator(".toast", {hasText: said}).waitFor();
		assert.equal(await weight(), theirs ?? Number(mine));
	}
	step("close while applied");
}

/** A page that draws no frame, as a tab in the background: dialogs go all the same. */
async function noFrame(page) {
	await begin(page);
	const left = await page.evaluate(() => {
		document.querySelector("dialog button.close").click();
		return document.querySelectorAll("dialog").length; // before any frame
	});
	assert.equal(left, 0, "a dialog waits for a frame to go");
	step("no frame");
}

run(async (browser) => {
	await api("PUT", "/v1/vips/web", {address: process.env.VIP, port: 80, protocol: "tcp"});
	for (const n of [1, 2])
		await api("PUT", `/v1/vips/web/dips/b${n}`, {address: `10.9.0.1${n}`});
	const page = await open(browser);
	await logIn(page, process.env.OPERATE_TOKEN);
	await page.getByRole("link", {name: "web", exact: true}).click();
	for (const act of [applyAtOnce, oneConflict, overTheirs, noLook, noAnswer, close, closeWhileApplied, noFrame])
		await act(page);
	assertClean(page);
	step("end");
});
