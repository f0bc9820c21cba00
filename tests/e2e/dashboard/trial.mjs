import {api, ask, chartData, logIn, open, run, step, assertClean} from "./browser.mjs";
run(async (browser) => {
	await api("PUT", "/v1/vips/web", {address: process.env.VIP, port: 80, protocol: "tcp", health: {type: "http", path: "/name", interval_ms: 500}});
	for (const i of [1,2,3]) await api("PUT", `/v1/vips/web/dips/b${i}`, {address: `10.9.0.1${i}`, weight: i});
	await api("PUT", "/v1/vips/dns", {address: process.env.VIP, port: 53, protocol: "udp"});
	await api("PUT", "/v1/vips/dns/dips/d1", {address: "10.9.0.11"});
	await api("PUT", "/v1/vips/dns/dips/d2", {address: "10.9.0.99"});
	await ask("traffic_start");
	const page = await open(browser);
	await logIn(page, process.env.OPERATE_TOKEN);
	await page.waitForTimeout(Number(process.env.WAIT || 12000));
	for (const theme of ["light","dark"]) {
		await page.emulateMedia({colorScheme: theme});
		for (const [n, h] of [["overview","#/"],["vip","#/vips/web"],["consistency","#/consistency"],["explain","#/explain?vip=web&src=10.9.0.1&sport=40000"],["changes","#/changes"]]) {
			for (const w of [1440, 360]) {
				await page.setViewportSize({width: w, height: w === 360 ? 740 : 900});
				await page.goto(`http://127.0.0.1:8080/${h}`);
				await page.waitForTimeout(n === "vip" ? 2500 : 600);
				await page.screenshot({path: `${process.env.SHOTS}/${n}-${w}-${theme}.png`, fullPage: true});
			}
		}
	}
	console.log(JSON.stringify({done: JSON.stringify(page.faults)}));
	step("end");
});
