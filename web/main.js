// The frame around the pages: who is logged in, whether what is shown is fresh, the theme.

import {ApiError, hasToken, setToken, whenRefused} from "./api.js";
import {h, text} from "./dom.js";
import {recolor} from "./charts.js";
import {loginForm} from "./login.js";
import {seconds} from "./format.js";
import * as router from "./router.js";
import {begin, end, isStale, known, subscribe} from "./state.js";
import {overview} from "./view_overview.js";
import {vipPage} from "./view_vip.js";
import {consistencyPage} from "./view_consistency.js";
import {explainPage} from "./view_explain.js";
import {changesPage} from "./view_changes.js";

const byId = (id) => document.getElementById(id);
const main = byId("main");
const PAGES = [["#/", "Overview"], ["#/consistency", "Consistency"], ["#/explain", "Explain"], ["#/changes", "Changes"]];

router.route("/", "Overview", overview);
router.route("/vips/:id", ({id}) => id, vipPage);
router.route("/consistency", "Consistency", consistencyPage);
router.route("/explain", "Explain", explainPage);
router.route("/changes", "Changes", changesPage);

function showLive() {
	const stale = isStale();
	const age = known.at ? seconds((Date.now() - known.at) / 1000) : "";
	document.body.classList.toggle("stale", stale);
	byId("live").dataset.kind = stale ? "stale" : known.streaming ? "live" : "polling";
	text(byId("live"), stale ? (known.at ? `Stale: ${age} old` : "No answer yet") : known.streaming ? "Live" : "Live, events off");
	byId("live").title = known.fault ? known.fault.message : "";
}

function showFrame(inside) {
	byId("nav").replaceChildren(...inside ? PAGES.map(([href, name]) => h("a", {href}, name)) : []);
	byId("live").hidden = !inside;
	byId("logout").hidden = !inside || !hasToken();
	text(byId("who"), inside ? `${known.author || "local"} · ${known.role}` : "");
}

function logIn(words) {
	end();
	router.stop();
	setToken(null);
	showFrame(false);
	document.body.classList.remove("stale");
	document.title = "Log in – Concury";
	main.replaceChildren(loginForm(words, async (token) => {
		setToken(token);
		await enter();
	}));
	main.querySelector("input").focus();
}

/** Throws an ApiError if the API does not let us in. */
async function enter() {
	await begin();
	showFrame(true);
	main.replaceChildren();
	router.start(main);
	showLive();
}

async function startUp() {
	try {
		await enter();
	} catch (e) {
		if (!(e instanceof ApiError))
			throw e;
		logIn(e.status === 401 ? "" : e.message);
	}
}

const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null; // by hand, for as long as the page is there

function setTheme() {
	document.documentElement.dataset.theme = chosen || (dark.matches ? "dark" : "light");
	recolor();
}

byId("theme").addEventListener("click", () => {
	chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
	setTheme();
});
dark.addEventListener("change", setTheme);
setTheme();
byId("logout").addEventListener("click", () => logIn(""));
byId("skip").addEventListener("click", (event) => {
	event.preventDefault(); // the address is the router's
	main.focus();
});

whenRefused(() => {
	// A token that was good has ended: say so. One that never was, the form itself speaks of.
	if (known.at)
		logIn("The token opens nothing any more: it was deleted, or has expired.");
});
subscribe((kind) => {
	if (kind !== "stream")
		router.update();
	showLive();
});
setInterval(() => {
	if (!byId("live").hidden)
		showLive();
}, 1000);

startUp();
