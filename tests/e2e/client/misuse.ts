// Calls that the description does not allow: each must be an error, or this does not compile. Never run.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const api = createClient<paths>({ baseUrl: "" });
const dip = { params: { path: { vip: "web", dip: "b1" } } };

export async function misuse() {
	// @ts-expect-error: no such word
	await api.PATCH("/v1/vips/{vip}/dips/{dip}", { ...dip, body: { admin_state: "off" } });
	// @ts-expect-error: a number it is
	await api.PATCH("/v1/vips/{vip}/dips/{dip}", { ...dip, body: { weight: "9" } });
	// @ts-expect-error: no such path
	await api.POST("/v1/config:roll", { body: { to: 1 } });
	// @ts-expect-error: a VIP needs more than this
	await api.PUT("/v1/vips/{vip}", { params: { path: { vip: "web" } }, body: { port: 80 } });
	// @ts-expect-error: no such method
	await api.POST("/v1/vips", {});
	// @ts-expect-error: no such member
	console.log((await api.GET("/v1/consistency", {})).data?.violations);
}
