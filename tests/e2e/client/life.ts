// The whole life of a VIP, by a client whose types are generated from schema/openapi.yaml: what does not fit
// the description does not compile, and what the daemon answers is looked at. Usage: node life.js URL ADDRESS
// DIP_ADDRESS DIP_ADDRESS
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const [url, address, first, second] = process.argv.slice(2);
assert(url && address && first && second, "usage: life.js URL ADDRESS DIP_ADDRESS DIP_ADDRESS");
const api = createClient<paths>({ baseUrl: url });

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** The body of an answer that must have this status. */
function must<T>(answer: Answer<T>, ...statuses: number[]): NonNullable<T> {
	const { data, error, response } = answer;
	assert(statuses.includes(response.status), `${response.status}: ${JSON.stringify(error ?? data)}`);
	assert(data !== undefined && data !== null);
	return data;
}

/** The problem of one that must be refused with this status. */
function refused(answer: Answer<unknown>, status: number): components["schemas"]["Problem"] {
	assert.equal(answer.response.status, status, JSON.stringify(answer.data));
	assert.equal(answer.response.headers.get("content-type"), "application/problem+json");
	return answer.error as components["schemas"]["Problem"];
}

const vip = { params: { path: { vip: "web" } } };
const dip = (id: string) => ({ params: { path: { vip: "web", dip: id } } });

async function create() {
	must(await api.PUT("/v1/vips/{vip}", { ...vip, body: { address, port: 80, protocol: "tcp" } }), 201);
	must(await api.PUT("/v1/vips/{vip}/dips/{dip}", { ...dip("b1"), body: { address: first, weight: 1 } }), 201);
	must(await api.PUT("/v1/vips/{vip}/dips/{dip}", { ...dip("b2"), body: { address: second, weight: 3 } }), 201);
	const { items } = must(await api.GET("/v1/vips/{vip}/dips", vip), 200);
	assert.deepEqual(items.map((d) => [d.id, d.address, d.weight]), [["b1", first, 1], ["b2", second, 3]]);
	const dcodes = items.reduce((sum, d) => sum + d.dcodes, 0);
	assert.equal(dcodes, must(await api.GET("/v1/vips/{vip}", vip), 200).dcodes);
}

async function refuse() {
	const bad = refused(await api.PATCH("/v1/vips/{vip}/dips/{dip}",
		{ ...dip("b1"), body: { weight: 70000 } }), 422);
	assert.equal(bad.errors?.[0]?.pointer, "/weight");
	refused(await api.GET("/v1/vips/{vip}", { params: { path: { vip: "none" } } }), 404);
}

async function change() {
	const read = must(await api.GET("/v1/vips/{vip}/dips/{dip}", dip("b1")), 200);
	must(await api.PUT("/v1/vips/{vip}/dips/{dip}", { ...dip("b1"), body: { ...read, weight: 2 } }), 200);
	must(await api.PATCH("/v1/vips/{vip}/dips/{dip}", { ...dip("b2"), body: { admin_state: "down" } }), 200);
	assert.equal(must(await api.GET("/v1/vips/{vip}/dips/{dip}", dip("b2")), 200).state, "down");
	const where = must(await api.GET("/v1/explain",
		{ params: { query: { vip: "web", src: "10.9.0.1", sport: 40000 } } }), 200);
	assert.equal(where.dip, "b1");
	must(await api.PATCH("/v1/vips/{vip}/dips/{dip}", { ...dip("b2"), body: { admin_state: "up" } }), 200);
}

async function remember() {
	const { items } = must(await api.GET("/v1/config/versions", { params: { query: { limit: 1 } } }), 200);
	const version = items[0]?.version;
	assert(version);
	const was = must(await api.GET("/v1/config/versions/{version}", { params: { path: { version } } }), 200);
	assert.deepEqual(was, must(await api.GET("/v1/config", {}), 200));
	must(await api.PATCH("/v1/vips/{vip}/dips/{dip}", { ...dip("b1"), body: { weight: 9 } }), 200);
	const diff = must(await api.GET("/v1/config/versions/{version}/diff",
		{ params: { path: { version: version + 1 } } }), 200);
	assert.deepEqual(diff.items.map((i) => [i.path, i.members]), [["/v1/vips/web/dips/b1", ["/weight"]]]);
	must(await api.POST("/v1/config:rollback", { body: { to: version } }), 200);
	assert.deepEqual(must(await api.GET("/v1/config", {}), 200), was);
	const log = must(await api.GET("/v1/audit-log", { params: { query: { path: "/v1/vips/web" } } }), 200);
	assert.equal(log.items[0]?.action, `POST /v1/config:rollback to ${version}`);
}

async function end() {
	must(await api.DELETE("/v1/vips/{vip}/dips/{dip}", dip("b2")), 200, 202);
	must(await api.DELETE("/v1/vips/{vip}",
		{ params: { path: { vip: "web" }, query: { force: true } } }), 200);
	refused(await api.GET("/v1/vips/{vip}", vip), 404);
	assert.deepEqual(must(await api.GET("/v1/vips", {}), 200).items, []);
	assert.equal(must(await api.GET("/v1/consistency", {}), 200).violations_total, 0);
}

for (const step of [create, refuse, change, remember, end]) {
	await step();
	console.log(`done: ${step.name}`);
}
