// Addresses of pages: #/, #/vips/web, #/consistency ... A page is a function that fills an element and returns
// {update, end}, both optional.

const routes = [];
let current = null;
let main = null;

export function route(pattern, title, make) {
	routes.push({parts: pattern.split("/"), title, make});
}

function match(hash) {
	const [address, search] = (hash.replace(/^#/, "") || "/").split("?");
	const parts = address.split("/");
	for (const r of routes) {
		const args = {};
		const fits = r.parts.length === parts.length && r.parts.every((p, i) => {
			if (p.startsWith(":")) {
				args[p.slice(1)] = decodeURIComponent(parts[i]);
				return parts[i] !== "";
			}
			return p === parts[i];
		});
		if (fits)
			return {route: r, args, query: new URLSearchParams(search || "")};
	}
	return null;
}

function mark(hash) {
	for (const a of document.querySelectorAll("#nav a")) {
		const own = a.getAttribute("href");
		const here = own === "#/" ? hash === "" || hash === "#/" || hash.startsWith("#/vips") : hash.startsWith(own);
		if (here)
			a.setAttribute("aria-current", "page");
		else
			a.removeAttribute("aria-current");
	}
}

function show(moveFocus) {
	const found = match(location.hash);
	if (!found) {
		location.hash = "#/";
		return;
	}
	current?.end?.();
	main.replaceChildren();
	const title = typeof found.route.title === "function" ? found.route.title(found.args) : found.route.title;
	document.title = `${title} – Concury`;
	current = found.route.make(main, found.args, found.query) || {};
	mark(location.hash);
	current.update?.();
	if (moveFocus) {
		scrollTo(0, 0);
		main.focus({preventScroll: true});
	}
}

const onHash = () => show(true);

export function start(element) {
	main = element;
	removeEventListener("hashchange", onHash);
	addEventListener("hashchange", onHash);
	show(false);
}

export function stop() {
	removeEventListener("hashchange", onHash);
	current?.end?.();
	current = null;
}

/** Show what is known now. */
export function update() {
	current?.update?.();
}

export function go(hash) {
	location.hash = hash;
}
